// What is checked of a path before the system sees it.
#pragma once

#include <string>

#include "nimble/base/result.h"

namespace nimble {

// The system would end the path at a NUL and take another file.
Status check_path(const std::string& path);

// The file that `path` leads to, through symbolic links: what writing to it
// replaces. It need not exist.
Result<std::string> follow_links(std::string path);

// The folder of a path: "." where it names none.
std::string folder_of(const std::string& path);

}  // namespace nimble
