// The programs that run on this node: those of drivers of this machine, run from where they lie,
// and those of others, laid out file by file in a folder of their own. Also the bytes that other
// nodes may read. Knows nothing of tasks. Touches the disk; one thread, except where it says
// otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "protocol/program.h"
#include "worker/core/worker_event.h"
#include "worker/process/program_start.h"

namespace mobula::internal::worker {

// How to start a prepared program.
struct RunnableProgram {
  std::string path;
  std::vector<EnvironmentVariable> environment;  // where the loader finds its libraries
  std::string scratch_directory;
};

class ProgramStore {
 public:
  // `folder` belongs to the store, and lives as long: what an earlier one left there is removed.
  static Result<std::unique_ptr<ProgramStore>> open(std::string folder);
  ~ProgramStore();
  ProgramStore(const ProgramStore&) = delete;
  ProgramStore& operator=(const ProgramStore&) = delete;

  // The driver with this pid runs it: its files stay readable from here on, even when they are
  // replaced on the disk. Files that cannot be opened are reported, and missing later.
  void add(std::int64_t pid, const ProgramRecord& program);
  // Ready to be run, or the files that have to be brought here, or why not.
  ProgramPrepared prepare(const ProgramRecord& program);
  // Of a program that is prepared.
  const RunnableProgram* find(ProgramId program) const;
  void forget(ProgramId program);

  // Where the bytes of a file are, for readers on other nodes.
  struct Source {
    Hash128 hash;
    std::string kept;      // its path in the store
    std::string incoming;  // where to write it if it is not there yet
    std::shared_ptr<const Fd> original;
    std::uint64_t size_bytes = 0;
  };
  // `purpose` keeps copies apart that are made at the same time.
  Result<Source> source_of(Hash128 hash, std::string_view purpose) const;
  // Any thread. Opens the store's own copy, which nobody changes, and makes it first if need be.
  static Result<Fd> open_kept(const Source& source);
  // Where to write a file that is being brought here.
  std::string incoming_path(Hash128 hash, std::string_view purpose) const;
  // Any thread. Takes over what was written there; corrupt if it has another hash, and it is gone
  // then.
  Result<void> accept(const std::string& incoming, Hash128 hash) const {
    return accept(incoming, file_path(hash), hash);
  }

 private:
  // A file as it was when its driver started.
  struct Original {
    std::string path;
    std::shared_ptr<const Fd> file;  // shared by the programs that have it
    std::uint64_t size_bytes = 0;
    std::int64_t device = 0;
    std::int64_t inode = 0;
    std::int64_t changed_ns = 0;
  };
  struct Row {
    ProgramRecord program;
    std::map<Hash128, Original> originals;
    std::optional<RunnableProgram> runnable;
  };

  explicit ProgramStore(std::string folder) : folder_(std::move(folder)) {}
  static std::optional<Original> look_at(const std::string& path);
  static bool unchanged(const Original& original);
  bool runs_in_place(const Row& row) const;
  Result<void> lay_out(Row& row) const;
  static Result<void> accept(const std::string& incoming, const std::string& kept, Hash128 hash);
  std::string file_path(Hash128 hash) const;
  std::string layout_path(ProgramId program) const;

  const std::string folder_;
  std::map<ProgramId, Row> rows_;
};

}  // namespace mobula::internal::worker
