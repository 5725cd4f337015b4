// Whole files in and out. SystemError, with the path and the reason, when the system refuses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

// Devices are refused, since they may have no end; a terminal is none of them.
std::string read_file(const std::string& path);

// A setting that others write, such as a size. Never waits: SystemError for what is no regular file (a folder, a FIFO,
// a device) and for more than `most_bytes`.
std::string read_small_file(const std::string& path, int64_t most_bytes);

// A regular file is replaced as a whole, once all bytes are on the disk: whatever ends the write, `path` is the old
// file or the new one, with the old one's mode, and no other file is left behind. Symbolic links stay and what they
// point at is replaced. What is no regular file (a device, a FIFO, /dev/stdout) is written to as it is.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace plimsoll
