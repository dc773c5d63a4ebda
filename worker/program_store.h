// The programs that run on this node: programs of local drivers, started from their original path,
// and programs of other nodes, stored file by file in the store's directory. Also provides the
// bytes that other nodes read.
// Thread: owner, unless a function states otherwise. Functions block on the disk. Not: tasks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "protocol/program/program.h"
#include "worker/core/worker_events.h"
#include "worker/process/pool/program_start.h"

namespace mobula::internal::worker {

// A prepared program, ready to be started.
struct RunnableProgram {
  std::string path;
  std::vector<EnvironmentVariable> environment;  // library search path of the loader
  std::vector<EnvironmentVariable> defaults;     // set unless the job or the call sets them
  bool is_interpreter = false;
  std::string scratch_directory;
};

class ProgramStore {
 public:
  // The store owns `directory` and removes the files of earlier stores in it.
  static Result<std::unique_ptr<ProgramStore>> open(std::string directory);
  ~ProgramStore();
  ProgramStore(const ProgramStore&) = delete;
  ProgramStore& operator=(const ProgramStore&) = delete;

  // The driver with this pid runs the program: its files stay readable from now on, even if they
  // are replaced on disk. Files that cannot be opened are logged, and later reported as missing.
  void add(std::int64_t pid, const ProgramRecord& program);
  // Ready, or a list of the missing files, or a failure.
  ProgramPrepared prepare(const ProgramRecord& program);
  // A prepared program; null if it is not prepared.
  const RunnableProgram* find(ProgramId program) const;
  void forget(ProgramId program);

  // The source of a file's bytes, for readers on other nodes.
  struct Source {
    Hash128 hash;
    std::string kept;      // path in the store
    std::string incoming;  // path for writing, if the file is not in the store
    std::shared_ptr<const Fd> original;
    std::uint64_t size_bytes = 0;
  };
  // `purpose` distinguishes copies that are made at the same time.
  Result<Source> source_of(Hash128 hash, std::string_view purpose) const;
  // Thread: any. Opens the store's own, unchanging copy, and creates it first if necessary.
  static Result<Fd> open_kept(const Source& source);
  // Path for writing a file that is being pulled.
  std::string incoming_path(Hash128 hash, std::string_view purpose) const;
  // Thread: any. Moves the written file into the store. Fails with corrupt and removes the file if
  // its hash differs.
  Result<void> accept(const std::string& incoming, Hash128 hash) const {
    return accept(incoming, file_path(hash), hash);
  }

 private:
  // A file in the state at the start of its driver.
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

  explicit ProgramStore(std::string directory) : directory_(std::move(directory)) {}
  static std::optional<Original> identify(const std::string& path);
  static bool unchanged(const Original& original);
  bool runs_in_place(const Row& row) const;
  Result<void> lay_out(Row& row) const;
  static Result<void> accept(const std::string& incoming, const std::string& kept, Hash128 hash);
  std::string file_path(Hash128 hash) const;
  std::string layout_path(ProgramId program) const;

  const std::string directory_;
  std::map<ProgramId, Row> rows_;
};

}  // namespace mobula::internal::worker
