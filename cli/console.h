// The terminal, the standard descriptors and the signals of this process: one place, so that every verb treats them
// alike. Results go to stdout, where a failure to write is an error; all else goes to stderr, where it is not.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace plimsoll::cli {

// At the start of main. Standard descriptors that are closed are opened on /dev/null, so that no file of ours takes
// their place. SIGINT and SIGTERM end the process at once, whatever it is at, with a word on stderr and the signal's
// own status: spill files and output that is not whole yet have no names, so nothing is left behind. A file that grows
// beyond `ulimit -f` is an error, not a signal.
void start_console();

// From now on the first SIGINT or SIGTERM is answered with a word and remembered, for a run that then comes to a good
// end; the second one ends the process.
void finish_on_interrupt();
int interrupting_signal();  // that came first; 0: none did

// This process is one of several ranks. Of others than rank 0 nothing is printed, told or shown from now on, but for
// write_errors and signals that are not the launcher's: they would all say the same.
void set_rank_of_console(int rank);

// At the end of main: whether all that was printed has been written. Says so where not.
bool finish_console();
// The errno of a print to stdout that failed, to be told at the end.
void note_output_error(int error);

// A line that is replaced by the next, for long work; nothing where stderr is no terminal.
bool shows_progress();
void show_progress(std::string_view line);
void erase_progress();

// Text to stdout, folded to the columns of the terminal, in ASCII where the locale has no UTF-8. The progress is erased
// before.
void print(std::string_view text);
template <class... T>
void print(fmt::format_string<T...> format, T&&... values) {
  print(std::string_view(fmt::format(format, std::forward<T>(values)...)));
}

// Whether text on stdout may be coloured: on a terminal, unless NO_COLOR or TERM=dumb says no.
bool uses_colour();

// Text to stderr. The progress is erased before.
void tell(std::string_view text);
template <class... T>
void tell(fmt::format_string<T...> format, T&&... values) {
  tell(std::string_view(fmt::format(format, std::forward<T>(values)...)));
}

// To stderr, byte for byte: what another program wrote there.
void write_errors(std::string_view bytes);

// To stdout, with bytes that are no UTF-8 replaced; an indent of -1 is one line.
void print_json(const nlohmann::ordered_json& json, int indent = 2);

}  // namespace plimsoll::cli
