"""What a reply may contain: no images or HTML of others, no secrets, and in some turns no links of strangers."""
