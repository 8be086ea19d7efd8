"""The honest laboratory: compare mixers with each other and with the simplest methods there are,
measure what they cost, and write it down so that another person can make it again."""
