// Holds the precompiled header that every test binary shares.
