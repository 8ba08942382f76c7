"""Where the bytes of a lake are: a disk, or S3."""
