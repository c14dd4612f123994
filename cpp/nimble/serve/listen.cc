// The sockets that a server listens on.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "nimble/serve/loop.h"

namespace nimble {
namespace {

// Removes a socket if no server listens on it.
Status remove_dead_socket(const sockaddr_un& address) {
  struct stat st{};
  if (::lstat(address.sun_path, &st) != 0) return Status::ok();
  if (!S_ISSOCK(st.st_mode)) {
    return Status::io_error(
        std::string(address.sun_path) + ": exists and is not a socket",
        EADDRINUSE);
  }
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address),
                sizeof address) == 0) {
    return Status::io_error(
        std::string(address.sun_path) + ": another server listens there",
        EADDRINUSE);
  }
  if (errno != ECONNREFUSED) return failed(address.sun_path);
  ::unlink(address.sun_path);
  return Status::ok();
}

}  // namespace

Status Server::Impl::listen() {
  if (!options.unix_path.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (options.unix_path.size() >= sizeof address.sun_path) {
      return Status::invalid_argument(
          options.unix_path + ": the path of a Unix socket has at most " +
          std::to_string(sizeof address.sun_path - 1) + " bytes");
    }
    std::memcpy(address.sun_path, options.unix_path.data(),
                options.unix_path.size());
    NIMBLE_RETURN_IF_ERROR(remove_dead_socket(address));
    Descriptor fd(
        ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd.get() < 0 ||
        ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
               sizeof address) != 0 ||
        ::listen(fd.get(), 511) != 0) {
      return failed(options.unix_path);
    }
    struct stat st{};
    if (::lstat(address.sun_path, &st) == 0) {
      unix_device_ = st.st_dev;
      unix_inode_ = st.st_ino;
    }
    listeners.push_back(std::move(fd));
  }
  if (!options.host.empty()) {
    const std::string shown = options.host + ":" + std::to_string(options.port);
    sockaddr_storage address{};
    socklen_t size = 0;
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
    if (::inet_pton(AF_INET, options.host.c_str(), &v4->sin_addr) == 1) {
      v4->sin_family = AF_INET;
      v4->sin_port = htons(options.port);
      size = sizeof *v4;
    } else if (::inet_pton(AF_INET6, options.host.c_str(), &v6->sin6_addr) ==
               1) {
      v6->sin6_family = AF_INET6;
      v6->sin6_port = htons(options.port);
      size = sizeof *v6;
    } else {
      return Status::invalid_argument("host '" + options.host +
                                      "': expected an IPv4 or IPv6 address");
    }
    Descriptor fd(::socket(address.ss_family,
                           SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int one = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd.get() < 0 ||
        ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) !=
            0 ||
        ::listen(fd.get(), 511) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) !=
            0) {
      return failed(shown);
    }
    port = ntohs(address.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
    listeners.push_back(std::move(fd));
  }
  if (listeners.empty()) {
    return Status::invalid_argument("a server needs a Unix socket or a host");
  }
  return Status::ok();
}

}  // namespace nimble
