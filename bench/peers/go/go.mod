module ramie/peer

go 1.25
