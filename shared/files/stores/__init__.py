"""Where the content of files is: a folder or an S3 bucket."""
