"""Object stores: data are written here, put into a bucket, and read through a gateway of the cell's own."""
