"""The pictures of the docs, taken of the real pages and the real terminal; `make screenshots` writes them."""
