// What the machine has, for tests of the binary.
#pragma once

// Whether products of bytes are computed as such.
bool machine_multiplies_bytes();
