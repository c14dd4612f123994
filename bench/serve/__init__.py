"""`nimble serve`, beside Redis."""
