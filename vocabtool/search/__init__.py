"""Search: two legs asked, fused by what the model of the vectors does not know, and explained."""
