// Checks of paths before they are passed to the system.
#pragma once

#include <string>

#include "nimble/base/result.h"

namespace nimble {

// Refuses paths with a NUL, because the system would ignore the rest.
Status check_path(const std::string& path);

// Follows symbolic links from `path` to the file that writing would replace.
// The file may be missing.
Result<std::string> follow_links(std::string path);

// The folder of a path, or "." if the path has no folder.
std::string folder_of(const std::string& path);

}  // namespace nimble
