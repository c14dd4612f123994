// A file appears whole or not at all.
#include "nimble/io/writable_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "io/temp_dir.h"

namespace {

// Counts files that were removed without holding their lock: another writer may
// have taken the name for its own file.
int removed_unlocked = 0;

}  // namespace

// Replaces the system's unlink() in the whole program.
extern "C" int unlink(const char* path) noexcept {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    removed_unlocked += ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    ::close(fd);
  }
  return ::unlinkat(AT_FDCWD, path, 0);
}

namespace nimble {
namespace {

using nimble::testing::TempDir;
using Names = std::vector<std::string>;

TEST(WritableFile, AppearsOnCommit) {
  const TempDir dir;
  {
    auto file = create_local_file(dir.path("a.nimble"));
    REQUIRE(file.has_value());
    CHECK((*file)->append(as_bytes("hello ")));
    CHECK((*file)->append({}));
    CHECK((*file)->append(as_bytes("world")));
    CHECK(!std::filesystem::exists(dir.path("a.nimble")));
    CHECK((*file)->commit());
    CHECK(dir.names() == Names{"a.nimble"});
  }
  CHECK(dir.names() == Names{"a.nimble"});
  CHECK_EQ(dir.read("a.nimble"), "hello world");
}

// Sizes around that of the pieces written to the system.
TEST(WritableFile, BytesOfAnySizeFollowEachOther) {
  const TempDir dir;
  std::string all;
  auto file = create_local_file(dir.path("a.nimble"));
  REQUIRE(file.has_value());
  for (const size_t size :
       {size_t{1}, (size_t{2} << 20) - 1, size_t{2} << 20, size_t{3},
        (size_t{6} << 20) + 5, size_t{100000}, size_t{4} << 20}) {
    std::string piece(size, ' ');
    for (size_t i = 0; i < size; ++i) {
      piece[i] = static_cast<char>((all.size() + i) * 2654435761u >> 24);
    }
    CHECK((*file)->append(as_bytes(piece)));
    all += piece;
  }
  CHECK((*file)->commit());
  CHECK(dir.read("a.nimble") == all);
}

TEST(WritableFile, LeavesNothingWithoutCommit) {
  const TempDir dir;
  {
    auto file = create_local_file(dir.path("a.nimble"));
    REQUIRE(file.has_value());
    CHECK((*file)->append(as_bytes(std::string(3 << 20, 'x'))));
    CHECK_EQ(dir.names().size(), 1);  // the temporary one
  }
  CHECK(dir.names().empty());
}

TEST(WritableFile, OldFileStaysUntilCommit) {
  const TempDir dir;
  const std::string path = dir.write("a.nimble", "old");
  {
    auto abandoned = create_local_file(path);
    REQUIRE(abandoned.has_value());
    CHECK((*abandoned)->append(as_bytes("new")));
  }
  CHECK_EQ(dir.read("a.nimble"), "old");
  auto file = create_local_file(path);
  REQUIRE(file.has_value());
  CHECK((*file)->append(as_bytes("new")));
  CHECK_EQ(dir.read("a.nimble"), "old");
  CHECK((*file)->commit());
  CHECK_EQ(dir.read("a.nimble"), "new");
  CHECK(dir.names() == Names{"a.nimble"});
}

TEST(WritableFile, TwoWritersOfOnePathDoNotMix) {
  const TempDir dir;
  auto first = create_local_file(dir.path("a"));
  auto second = create_local_file(dir.path("a"));
  REQUIRE(first.has_value() && second.has_value());
  CHECK((*first)->append(as_bytes("first")));
  CHECK((*second)->append(as_bytes("second")));
  CHECK((*first)->commit());
  CHECK_EQ(dir.read("a"), "first");
  CHECK((*second)->commit());
  CHECK_EQ(dir.read("a"), "second");
}

TEST(WritableFile, BytesAroundTheBufferSize) {
  const TempDir dir;
  constexpr size_t kBuffer = size_t{1} << 20;
  for (const size_t first : {size_t{1}, kBuffer - 1, kBuffer, kBuffer + 1}) {
    for (const size_t second : {size_t{0}, size_t{1}, kBuffer, 2 * kBuffer}) {
      auto file = create_local_file(dir.path("a"));
      REQUIRE(file.has_value());
      CHECK((*file)->append(as_bytes(std::string(first, 'a'))));
      CHECK((*file)->append(as_bytes(std::string(second, 'b'))));
      CHECK((*file)->append(as_bytes("end")));
      CHECK((*file)->commit());
      CHECK(dir.read("a") ==
            std::string(first, 'a') + std::string(second, 'b') + "end");
    }
  }
}

TEST(WritableFile, RefusesWhatItCannotReplace) {
  const TempDir dir;
  std::filesystem::create_directory(dir.path("sub"));
  const auto directory = create_local_file(dir.path("sub"));
  REQUIRE(!directory.has_value());
  CHECK_EQ(directory.error().os_error(), EISDIR);
  const auto missing = create_local_file(dir.path("none/a.nimble"));
  REQUIRE(!missing.has_value());
  CHECK_EQ(missing.error().os_error(), ENOENT);
  // The target becomes a directory while the file is written.
  {
    auto file = create_local_file(dir.path("late"));
    REQUIRE(file.has_value());
    std::filesystem::create_directory(dir.path("late"));
    CHECK((*file)->commit().code() == StatusCode::kIoError);
  }
  CHECK(dir.names() == Names({"late", "sub"}));
  REQUIRE(::mkfifo(dir.path("pipe").c_str(), 0600) == 0);
  const auto pipe = create_local_file(dir.path("pipe"));
  REQUIRE(!pipe.has_value());
  CHECK(pipe.error().message().find("regular file") != std::string_view::npos);
  const auto cut = create_local_file(std::string("a\0b", 3));
  REQUIRE(!cut.has_value());
  CHECK_EQ(cut.error().message(), "path: embedded null byte");
  CHECK(dir.names() == Names({"late", "pipe", "sub"}));
}

mode_t mode_of(const std::string& path) {
  struct stat st{};
  REQUIRE(::stat(path.c_str(), &st) == 0);
  return st.st_mode & 07777;
}

TEST(WritableFile, KeepsTheModeOfWhatItReplaces) {
  const TempDir dir;
  for (const mode_t mode : {0600, 0644, 0666, 0400}) {
    const std::string path = dir.write("a", "old");
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    auto file = create_local_file(path);
    REQUIRE(file.has_value());
    CHECK_EQ(mode_of(dir.path(".a.0.nimble-tmp")), mode);
    CHECK((*file)->commit());
    CHECK_EQ(mode_of(path), mode);
    REQUIRE(::unlinkat(AT_FDCWD, path.c_str(), 0) == 0);
  }
}

TEST(WritableFile, ReplacesWhatALinkLeadsTo) {
  const TempDir dir;
  std::filesystem::create_directory(dir.path("sub"));
  std::filesystem::create_symlink("sub/file", dir.path("relative"));
  std::filesystem::create_symlink(dir.path("relative"), dir.path("absolute"));
  std::filesystem::create_symlink("loop", dir.path("loop"));
  for (const char* name : {"relative", "absolute"}) {  // no target, then one
    auto file = create_local_file(dir.path(name));
    REQUIRE(file.has_value());
    CHECK((*file)->append(as_bytes(name)));
    CHECK((*file)->commit());
    CHECK_EQ(dir.read("sub/file"), name);
    CHECK(std::filesystem::is_symlink(dir.path(name)));
  }
  const auto loop = create_local_file(dir.path("loop"));
  REQUIRE(!loop.has_value());
  CHECK_EQ(loop.error().os_error(), ELOOP);
}

TEST(WritableFile, IsRemovedWhileItIsLocked) {
  const TempDir dir;
  removed_unlocked = 0;
  REQUIRE(create_local_file(dir.path("a")).has_value());
  CHECK(dir.names().empty());
  CHECK_EQ(removed_unlocked, 0);
}

TEST(WritableFile, AChildOfForkLeavesItAlone) {
  const TempDir dir;
  auto file = create_local_file(dir.path("a"));
  REQUIRE(file.has_value());
  CHECK((*file)->append(as_bytes("whole")));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused =
        !(*file)->append(as_bytes(std::string(3 << 20, 'x'))) &&
        !(*file)->commit();
    file->reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK_EQ(status, 0);
  CHECK((*file)->commit());
  CHECK_EQ(dir.read("a"), "whole");
}

// A killed process leaves the file, without a lock.
TEST(WritableFile, RemovesTheRemainsOfTheDead) {
  const TempDir dir;
  dir.write(".a.0.nimble-tmp", "half");
  dir.write(".a.1.nimble-tmp", "another half");
  dir.write(".b.0.nimble-tmp", "of another file");
  auto file = create_local_file(dir.path("a"));
  REQUIRE(file.has_value());
  CHECK(dir.names() == Names({".a.0.nimble-tmp", ".b.0.nimble-tmp"}));
  CHECK((*file)->append(as_bytes("whole")));
  CHECK((*file)->commit());
  CHECK(dir.names() == Names({".b.0.nimble-tmp", "a"}));
  CHECK_EQ(dir.read("a"), "whole");
}

TEST(WritableFile, LeavesTheTemporaryFilesOfTheLivingAlone) {
  const TempDir dir;
  auto first = create_local_file(dir.path("a"));
  REQUIRE(first.has_value());
  CHECK((*first)->append(as_bytes("first")));
  for (int i = 0; i < 3; ++i) {
    auto other = create_local_file(dir.path("a"));
    REQUIRE(other.has_value());
    CHECK_EQ(dir.names().size(), 2);
  }
  CHECK((*first)->commit());
  CHECK_EQ(dir.read("a"), "first");
  CHECK(dir.names() == Names{"a"});
}

}  // namespace
}  // namespace nimble
