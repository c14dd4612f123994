// TableWatcher: the tables of a directory of serving manifests, kept up to date
// by a thread. Thread-safe.
//
// The file CURRENT of the directory has a line "NAME FILE" for each manifest,
// and is replaced by renaming. It is read when it has changed. If a manifest
// cannot be read, the table that is served remains, and the manifest is read
// again after 0.1 to 6.4 s. A table whose line vanishes was dropped or renamed,
// and is not served any more.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "nimble/serve/commands.h"
#include "nimble/serve/module/module_options.h"

namespace nimble {

class TableWatcher {
 public:
  struct State {
    std::shared_ptr<const ServedTables> tables;
    uint64_t swaps = 0;
    uint64_t failures = 0;   // reads of CURRENT that failed or lack a table
    std::string last_error;  // empty after a success
  };

  // `options` outlives this object. `log` receives each new failure.
  TableWatcher(const ModuleOptions& options,
               std::function<void(const std::string&)> log);
  ~TableWatcher() { stop(); }
  TableWatcher(const TableWatcher&) = delete;
  TableWatcher& operator=(const TableWatcher&) = delete;

  // Reads CURRENT, if it is due, and the manifests that it did not name before.
  // Blocks on reads.
  void poll();
  // Reads the manifest `file` of the directory as the table `name`. It is
  // served until CURRENT names another one for this table. Blocks on reads.
  Status load(const std::string& name, const std::string& file);
  // Starts polling. Fails if the thread cannot start.
  Status start();
  void stop();

  // Replaces *tables by newer ones, if there are any. The thread frees the old
  // ones. Returns whether there were newer ones.
  bool take(std::shared_ptr<const ServedTables>* tables);
  State state() const;

 private:
  using Files = std::map<std::string, std::string, std::less<>>;
  // Identifies the content of CURRENT.
  struct Identity {
    uint64_t device = 0, inode = 0, size = 0;
    int64_t changed_nanos = 0;
    bool operator==(const Identity&) const = default;
  };

  Result<std::shared_ptr<const ServedTable>> read(
      const std::string& name, const std::string& file) const;
  // Returns an error if a file that the table's last snapshot does not have is
  // missing.
  Status check_new_files(const std::string& name,
                         const ServedTable& table) const;
  Result<Files> read_current() const;
  // Returns nullopt if CURRENT does not exist.
  std::optional<Identity> find_current() const;
  // Reads CURRENT and its new manifests. *is_settled: reading again would not
  // help before CURRENT changes.
  Status read_tables(bool* is_settled);
  // Removes the tables that are null in `changed`.
  void publish(const ServedTables& changed);
  void run();

  const ModuleOptions& options_;
  const std::function<void(const std::string&)> log_;
  const std::shared_ptr<OpenFiles> open_files_ = std::make_shared<OpenFiles>();

  std::mutex read_mutex_;  // one reader at a time; taken before mutex_
  Files loaded_;           // the lines of CURRENT that are done
  Files listed_;           // the lines of CURRENT when it was last read
  std::optional<Identity> current_;  // when CURRENT was last read
  uint64_t waits_ = 0;  // polls that pass, unless CURRENT changes meanwhile
  uint64_t next_waits_ = 1;

  mutable std::mutex mutex_;
  State state_;
  std::vector<std::shared_ptr<const ServedTables>> retired_;
  std::atomic<bool> has_next_{false};

  std::mutex stop_mutex_;
  std::condition_variable stop_ready_;
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace nimble
