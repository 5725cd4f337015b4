// The files that come with the binary: the Python side and the preload library. In a build they stand in the source and
// build folders, once installed in share and lib, in a wheel beside the binary. UnsupportedError with what was looked
// for where they are not found.
#pragma once

#include <filesystem>

namespace plimsoll {

// The folder on PYTHONPATH that holds the package `plimsoll`; PLIMSOLL_PYTHON_DIR names another.
std::filesystem::path python_folder();

// What stands in for the CUDA libraries when there is no card. PLIMSOLL_PRELOAD_DIR names another folder for both.
std::filesystem::path simulation_library();
std::filesystem::path preload_library();

}  // namespace plimsoll
