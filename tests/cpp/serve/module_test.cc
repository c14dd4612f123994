// The module of Redis: its options, and the tables that it follows.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "io/temp_dir.h"
#include "nimble/serve/module/module_options.h"
#include "nimble/serve/module/table_watcher.h"
#include "reader/columns.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

using Words = std::vector<std::string_view>;

ModuleOptions options_in(const TempDir& dir) {
  const std::string path = dir.path("");
  return *ModuleOptions::parse(
      Words{"directory", path, "table", "shop.users=users"});
}

// A manifest of a table without files, of this snapshot.
std::string manifest_of(const std::string& table, int64_t snapshot) {
  ServingManifest m;
  m.name = table;
  m.uuid = "u";
  m.snapshot = snapshot;
  m.schema = struct_of({make_field("l")});
  m.schema.children[0].name = "id";
  const std::vector<uint8_t> bytes = m.serialize();
  return std::string(bytes.begin(), bytes.end());
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path + ".tmp", std::ios::binary) << text;
  std::filesystem::rename(path + ".tmp", path);
}

int64_t snapshot_of(const std::shared_ptr<const ServedTables>& tables) {
  const auto at = tables->find("users");
  return at == tables->end() ? -1 : *at->second->manifest().snapshot;
}

TEST(ModuleOptions, WordsAreRead) {
  const auto read = ModuleOptions::parse(
      Words{"lake", "/srv/a/../lake/", "table", "shop.users=users", "table",
            "a=b=c", "threads", "3", "max-keys", "5", "raw", "no"});
  CHECK(read);
  CHECK_EQ(read->lake, "/srv/lake");
  CHECK_EQ(read->directory, "/srv/lake/serve");
  CHECK_EQ(read->tables.at("users"), "shop.users");
  CHECK_EQ(read->tables.at("c"), "a=b");
  CHECK_EQ(read->threads, 3u);
  CHECK_EQ(read->commands.max_keys, 5u);
  CHECK(!read->commands.allow_raw);
}

TEST(ModuleOptions, RandomWordsAreErrors) {
  const std::string words[] = {"lake",
                               "directory",
                               "table",
                               "threads",
                               "raw",
                               "max-keys",
                               "",
                               "/",
                               "=",
                               "a=",
                               "=b",
                               "a=b:",
                               "a=b c",
                               "0",
                               "65",
                               "-1",
                               "99999999999999999999",
                               std::string(3, '\0'),
                               std::string(100000, 'x')};
  uint64_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    Words given;
    for (int k = 0; k < 1 + i % 6; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      given.push_back(words[(state >> 33) % std::size(words)]);
    }
    // No choice of these words has a lake or directory, and a table.
    CHECK(!ModuleOptions::parse(given));
  }
}

TEST(TableWatcher, DamagedManifestsLeaveTheTable) {
  const TempDir dir;
  const ModuleOptions options = options_in(dir);
  std::vector<std::string> log;
  TableWatcher watcher(options,
                       [&](const std::string& m) { log.push_back(m); });
  std::shared_ptr<const ServedTables> tables = watcher.state().tables;
  watcher.poll();
  watcher.poll();
  CHECK_EQ(log.size(), 1u);  // each failure once
  write(dir.path("m1"), manifest_of("shop.users", 1));
  write(dir.path("CURRENT"), "other m7\nusers m1\n\nusers\n");
  watcher.poll();
  watcher.take(&tables);
  CHECK_EQ(snapshot_of(tables), 1);
  CHECK_EQ(watcher.state().last_error, "");
  const std::string good = manifest_of("shop.users", 2);
  const std::string bad[] = {"", good.substr(0, 20),
                             good.substr(0, good.size() - 1), good + "x",
                             manifest_of("shop.others", 2)};
  for (const std::string& bytes : bad) {
    write(dir.path("m2"), bytes);
    CHECK(!watcher.load("users", "m2"));
    write(dir.path("CURRENT"), "users m2\n");
    watcher.poll();
    CHECK(watcher.state().last_error != "");
  }
  for (const char* const name : {"", ".", "..", "../m1", "/m1", "none"}) {
    CHECK(!watcher.load("users", name));
    write(dir.path("CURRENT"), std::string("users ") + name + "\n");
    watcher.poll();
    CHECK(watcher.state().last_error != "");
  }
  CHECK(!watcher.load("others", "m1"));
  write(dir.path("CURRENT"), std::string((1 << 20) + 1, 'x'));
  watcher.poll();
  CHECK(watcher.state().last_error.find("more than") != std::string::npos);
  watcher.take(&tables);
  CHECK_EQ(snapshot_of(tables), 1);
  write(dir.path("m3"), good);
  write(dir.path("CURRENT"), "users m3");
  watcher.poll();
  watcher.take(&tables);
  CHECK_EQ(snapshot_of(tables), 2);
}

TEST(TableWatcher, LoadedManifestRemainsIfOtherTablesChange) {
  const TempDir dir;
  const std::string path = dir.path("");
  const ModuleOptions options = *ModuleOptions::parse(
      Words{"directory", path, "table", "shop.users=users", "table",
            "shop.others=others"});
  TableWatcher watcher(options, [](const std::string&) {});
  std::shared_ptr<const ServedTables> tables = watcher.state().tables;
  for (int64_t i = 1; i <= 3; ++i) {
    write(dir.path("m" + std::to_string(i)), manifest_of("shop.users", i));
    write(dir.path("o" + std::to_string(i)), manifest_of("shop.others", i));
  }
  const auto served_after = [&](const std::string& current) {
    write(dir.path("CURRENT"), current);
    watcher.poll();
    watcher.take(&tables);
    return snapshot_of(tables);
  };
  CHECK_EQ(served_after("users m2\nothers o1\n"), 2);
  CHECK(watcher.load("users", "m1"));
  CHECK_EQ(served_after("users m2\nothers o2\n"), 1);
  CHECK_EQ(*tables->at("others")->manifest().snapshot, 2);
  CHECK_EQ(served_after("users m2\nothers o3\n"), 1);
  CHECK_EQ(served_after("users m3\nothers o3\n"), 3);
  CHECK(watcher.load("users", "m1"));
  CHECK_EQ(served_after("users m2\nothers o3\n"), 2);
  // A table is loaded that CURRENT does not have, or whose line is damaged.
  CHECK_EQ(served_after("others o3\n"), -1);
  CHECK(watcher.load("users", "m1"));
  CHECK_EQ(served_after("others o2\n"), 1);
  CHECK_EQ(served_after("users m2\nothers o2\n"), 2);
  CHECK_EQ(served_after("users none\nothers o2\n"), 2);
  CHECK(watcher.load("users", "m1"));
  CHECK_EQ(served_after("users none\nothers o3\n"), 1);
}

TEST(TableWatcher, CurrentIsReadAgainOnlyIfThatMayHelp) {
  const TempDir dir;
  const std::string path = dir.path("");
  const ModuleOptions options = *ModuleOptions::parse(
      Words{"directory", path, "table", "shop.users=users", "table",
            "shop.orders=orders"});
  std::vector<std::string> log;
  TableWatcher watcher(options,
                       [&](const std::string& m) { log.push_back(m); });
  std::shared_ptr<const ServedTables> tables = watcher.state().tables;
  const auto poll = [&](int times) {
    for (int i = 0; i < times; ++i) watcher.poll();
    watcher.take(&tables);
    return watcher.state().failures;
  };
  CHECK_EQ(poll(100), 1u);  // there is no CURRENT
  write(dir.path("m1"), manifest_of("shop.users", 1));
  write(dir.path("m2"), manifest_of("shop.users", 2));
  write(dir.path("CURRENT"), "users m1\n");
  CHECK_EQ(poll(100), 2u);  // it has no line of the other table
  CHECK_EQ(log.size(), 2u);
  CHECK(watcher.state().last_error.find("orders") != std::string::npos);
  CHECK_EQ(snapshot_of(tables), 1);
  CHECK(watcher.load("users", "m2"));
  CHECK_EQ(poll(100), 2u);
  CHECK_EQ(snapshot_of(tables), 2);  // CURRENT was not read again
  // A manifest that cannot be read is read after 1, 2, 4, ... 64, 64 polls.
  write(dir.path("CURRENT"), "users m1\norders m3\n");
  CHECK_EQ(poll(1), 3u);
  CHECK_EQ(poll(4), 4u);
  CHECK_EQ(poll(129), 9u);
  CHECK_EQ(poll(1), 10u);
  CHECK_EQ(log.size(), 3u);
  CHECK(log.back().find("m3' is not in ") != std::string::npos);
  CHECK_EQ(snapshot_of(tables), 2);
  write(dir.path("m3"), manifest_of("shop.orders", 7));
  CHECK_EQ(poll(64), 10u);
  CHECK_EQ(tables->size(), 1u);
  CHECK_EQ(poll(1), 10u);
  CHECK_EQ(tables->size(), 2u);
  CHECK_EQ(watcher.state().last_error, "");
}

TEST(TableWatcher, TablesMoveForwardWhileThreadsRead) {
  const TempDir dir;
  const ModuleOptions options = options_in(dir);
  TableWatcher watcher(options, [](const std::string&) {});
  constexpr int64_t kLast = 200;
  write(dir.path("m0"), manifest_of("shop.users", 0));
  write(dir.path("CURRENT"), "users m0\n");
  watcher.poll();
  CHECK(watcher.start());
  std::thread writer([&] {
    for (int64_t i = 1; i <= kLast; ++i) {
      const std::string file = "m" + std::to_string(i);
      write(dir.path(file), manifest_of("shop.users", i));
      if (i % 2 == 0) {
        CHECK(watcher.load("users", file));
      } else {
        write(dir.path("CURRENT"), "users " + file + "\n");
        watcher.poll();
      }
    }
  });
  std::shared_ptr<const ServedTables> tables = watcher.state().tables;
  int64_t last = 0;
  while (last < kLast) {
    watcher.take(&tables);
    const int64_t now = snapshot_of(tables);
    CHECK(now >= last);
    last = now;
    CHECK(watcher.state().tables != nullptr);
  }
  writer.join();
  watcher.stop();
  CHECK_EQ(watcher.state().failures, 0u);
}

}  // namespace
}  // namespace nimble::testing
