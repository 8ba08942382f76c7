"""What the files of one Iceberg table say, whatever ref points to them."""
