// What others put around a line of a log: those who quote it, number it, stamp it with the time or write it into a
// string of JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::explain {

// The lines that stand in one, as JSON and Python write them ("Traceback …\n  File …"), escapes undone, also where a
// string was put into a string. Nothing when the line is just a line.
std::vector<std::string> unpacked_lines(std::string_view line);

// Without marks of quotation ("> ", or of code around all of it), numbers of lines, times, and the names that
// containers and the journal put in front. What tells how grave the line is stays.
std::string_view without_prefix(std::string_view line);

// And without the level and the logger's name.
std::string_view without_logger(std::string_view line);

// Whether the line begins with a date, a level or a traceback, so that it does not continue another.
bool begins_record(std::string_view line);

// Whether the line is a shell's word for a process that was killed, in one of the languages that shells speak.
bool is_killed_word(std::string_view line);

}  // namespace plimsoll::explain
