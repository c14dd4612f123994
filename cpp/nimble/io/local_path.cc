#include "nimble/io/local_path.h"

#include <limits.h>
#include <unistd.h>

#include <cerrno>

namespace nimble {
namespace {

// Maximum number of symbolic links to follow, as in Linux.
constexpr int kMostLinks = 40;

}  // namespace

Status check_path(const std::string& path) {
  if (path.find('\0') == std::string::npos) return Status::ok();
  return Status::invalid_argument("path: embedded null byte");
}

Result<std::string> follow_links(std::string path) {
  for (int i = 0; i < kMostLinks; ++i) {
    char link[PATH_MAX];
    const ssize_t n = ::readlink(path.c_str(), link, sizeof link);
    // EINVAL: not a link. The call that opens the path reports other errors.
    if (n < 0) return path;
    const std::string target(link, static_cast<size_t>(n));
    path = target.starts_with('/') ? target : folder_of(path) + "/" + target;
  }
  return Status::io_error(path, ELOOP);
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace nimble
