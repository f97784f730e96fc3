"""What a guarantee will cost, before anyone is paid."""
