#include "worker/program_store.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/logging/log.h"
#include "protocol/program/cluster_files.h"
#include "protocol/program/library_name.h"
#include "protocol/program/program_files.h"

namespace mobula::internal::worker {
namespace {

namespace fs = std::filesystem;

// A file name without a path: names from other nodes must not lead out of the directory.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// Path of an interpreter on this node: as given, or found in PATH.
Result<std::string> path_of_command(const std::string& command) {
  const auto runs = [](const std::string& path) { return ::access(path.c_str(), X_OK) == 0; };
  const auto fail = [&](const char* why) {
    return failure(ErrorCode::not_found, "run interpreter " + command + ": " + why);
  };
  if (command.find('/') != std::string::npos) {
    if (runs(command)) return command;
    return fail("no executable file has this path on the node; install it there");
  }
  const char* given = std::getenv("PATH");
  std::string_view rest = given == nullptr ? "" : given;
  while (!rest.empty()) {
    const auto end = std::min(rest.find(':'), rest.size());
    const std::string path = std::string(rest.substr(0, end)) + "/" + command;
    if (runs(path)) return path;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return fail("the PATH of the node's agent has no such file; install it there");
}

Result<void> copy_file(const Fd& from, std::uint64_t size_bytes, const std::string& path) {
  const Fd to(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700));
  if (!to) return errno_failure("write " + path, errno);
  off_t at = 0;
  while (static_cast<std::uint64_t>(at) < size_bytes) {
    const ssize_t count =
        ::sendfile(to.get(), from.get(), &at, size_bytes - static_cast<std::uint64_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_failure("write " + path, errno);
    if (count == 0) break;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ProgramStore>> ProgramStore::open(std::string directory) {
  std::error_code code;
  fs::remove_all(directory, code);
  for (const auto& each : {directory, directory + "/files"}) {
    if (auto made = make_private_dir(each); !made) return made.error();
  }
  return std::unique_ptr<ProgramStore>(new ProgramStore(std::move(directory)));
}

ProgramStore::~ProgramStore() {
  std::error_code code;
  fs::remove_all(directory_, code);
}

std::string ProgramStore::file_path(Hash128 hash) const {
  return directory_ + "/files/" + hex_of(hash);
}
std::string ProgramStore::layout_path(ProgramId program) const {
  return directory_ + "/" + program.hex();
}
std::string ProgramStore::incoming_path(Hash128 hash, std::string_view purpose) const {
  return file_path(hash) + ".new-" + std::string(purpose);
}

// ---- programs of local drivers ------------------------------------------------------------------

std::optional<ProgramStore::Original> ProgramStore::identify(const std::string& path) {
  struct stat seen {};
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::fstat(file.get(), &seen) != 0 || !S_ISREG(seen.st_mode)) return std::nullopt;
  Original original;
  original.path = path;
  original.file = std::make_shared<const Fd>(std::move(file));
  original.size_bytes = static_cast<std::uint64_t>(seen.st_size);
  original.device = static_cast<std::int64_t>(seen.st_dev);
  original.inode = static_cast<std::int64_t>(seen.st_ino);
  original.changed_ns = seen.st_mtim.tv_sec * 1'000'000'000 + seen.st_mtim.tv_nsec;
  return original;
}

bool ProgramStore::unchanged(const Original& original) {
  const auto now = identify(original.path);
  return now && now->size_bytes == original.size_bytes && now->device == original.device &&
         now->inode == original.inode && now->changed_ns == original.changed_ns;
}

// The hashes are the driver's statement, which suffices for its own program. Other nodes verify
// their copies.
void ProgramStore::add(std::int64_t pid, const ProgramRecord& program) {
  Row& row = rows_[program.id];
  row.program = program;
  const auto paths = program_paths(pid);
  if (!paths) return log_warn("a driver's program is not kept: {}", paths.error().text);
  for (std::size_t i = 0; i < program.files.size(); ++i) {
    const ProgramFile& file = program.files[i];
    const auto path = std::ranges::find_if(
        *paths, [&](const std::string& each) { return fs::path(each).filename() == file.name; });
    auto original = path == paths->end() ? std::nullopt : identify(*path);
    if (!original || original->size_bytes != static_cast<std::uint64_t>(file.size_bytes)) {
      log_warn(
          "file {} of program {} is not kept: it is missing or has changed since process {} "
          "began",
          file.name, program.id.brief(), pid);
      continue;
    }
    row.originals.insert_or_assign(file.hash, std::move(*original));
  }
}

bool ProgramStore::runs_in_place(const Row& row) const {
  return std::ranges::all_of(row.program.files, [&](const ProgramFile& file) {
    const auto at = row.originals.find(file.hash);
    return at != row.originals.end() && unchanged(at->second);
  });
}

// ---- preparing programs -------------------------------------------------------------------------

ProgramPrepared ProgramStore::prepare(const ProgramRecord& program) {
  ProgramPrepared answer{program.id, {}, {}};
  if (program.is_interpreter()) {
    auto path = path_of_command(program.arguments.front());
    if (!path) {
      answer.failure = path.error();
      return answer;
    }
    Row& row = rows_[program.id];
    row.program = program;
    row.runnable = RunnableProgram{std::move(*path),
                                   {},
                                   {program.start_env.begin(), program.start_env.end()},
                                   true,
                                   directory_ + "/scratch"};
    return answer;
  }
  if (program.files.empty()) {
    answer.failure = failure(ErrorCode::invalid_argument, "the program has no files");
    return answer;
  }
  Row& row = rows_[program.id];
  if (row.program.id.empty()) row.program = program;
  RunnableProgram runnable;
  runnable.scratch_directory = directory_ + "/scratch";
  if (runs_in_place(row)) {
    runnable.path = row.originals.at(program.files.front().hash).path;
    row.runnable = std::move(runnable);
    return answer;
  }
  for (const ProgramFile& file : program.files) {
    const bool here = ::access(file_path(file.hash).c_str(), R_OK) == 0;
    if (here || row.originals.contains(file.hash)) continue;
    answer.missing.push_back(file);
  }
  if (!answer.missing.empty()) return answer;
  if (auto done = lay_out(row); !done) {
    answer.failure = done.error();
    return answer;
  }
  const std::string directory = layout_path(program.id);
  const char* inherited = std::getenv("LD_LIBRARY_PATH");
  const bool more = inherited != nullptr && *inherited != '\0';
  runnable.environment = {{"LD_LIBRARY_PATH", more ? directory + ":" + inherited : directory}};
  if (std::string plugins = plugins_beside("/proc/self/exe"); !plugins.empty())
    runnable.environment.emplace_back(plugin_dir_variable, std::move(plugins));
  runnable.path = directory + "/" + program.files.front().name;
  row.runnable = std::move(runnable);
  return answer;
}

Result<void> ProgramStore::lay_out(Row& row) const {
  const std::string directory = layout_path(row.program.id);
  if (auto made = make_private_dir(directory); !made) return made;
  for (const ProgramFile& file : row.program.files) {
    if (!is_plain_name(file.name)) {
      return failure(ErrorCode::invalid_argument,
                     "a program file has the name '" + file.name + "'");
    }
    const auto source = source_of(file.hash, "layout");
    if (!source) return source.error();
    if (auto kept = open_kept(*source); !kept) return kept.error();
    const std::string path = directory + "/" + file.name;
    ::unlink(path.c_str());
    if (::link(file_path(file.hash).c_str(), path.c_str()) != 0) {
      return errno_failure("lay out " + path, errno);
    }
  }
  // Programs usually load a library by another name than that of its file: libone.so.1 for
  // libone.so.1.2.3.
  for (const ProgramFile& file : row.program.files) {
    const std::string name = library_name(file_path(file.hash));
    const std::string path = directory + "/" + name;
    if (!is_plain_name(name) || ::access(path.c_str(), F_OK) == 0) continue;
    if (::link(file_path(file.hash).c_str(), path.c_str()) != 0)
      return errno_failure("lay out " + path, errno);
  }
  return {};
}

Result<void> ProgramStore::accept(const std::string& incoming, const std::string& kept,
                                  Hash128 hash) {
  const auto seen = hash_file(incoming);
  if (!seen || *seen != hash) {
    ::unlink(incoming.c_str());
    if (!seen) return seen.error();
    return failure(ErrorCode::corrupt, "program file " + hex_of(hash) + " came with other bytes (" +
                                           hex_of(*seen) + "); was it replaced while jobs run it?");
  }
  if (::chmod(incoming.c_str(), 0700) != 0 || ::rename(incoming.c_str(), kept.c_str()) != 0) {
    return errno_failure("keep program file " + hex_of(hash), errno);
  }
  return {};
}

const RunnableProgram* ProgramStore::find(ProgramId program) const {
  const auto at = rows_.find(program);
  return at == rows_.end() || !at->second.runnable ? nullptr : &*at->second.runnable;
}

void ProgramStore::forget(ProgramId program) {
  const auto at = rows_.find(program);
  if (at == rows_.end()) return;
  const auto files = at->second.program.files;
  rows_.erase(at);
  std::error_code code;
  fs::remove_all(layout_path(program), code);
  for (const ProgramFile& file : files) {
    const bool used = std::ranges::any_of(rows_, [&](const auto& entry) {
      return std::ranges::any_of(entry.second.program.files,
                                 [&](const ProgramFile& each) { return each.hash == file.hash; });
    });
    if (!used) ::unlink(file_path(file.hash).c_str());
  }
}

// ---- for other nodes ----------------------------------------------------------------------------

Result<ProgramStore::Source> ProgramStore::source_of(Hash128 hash, std::string_view purpose) const {
  Source source{hash, file_path(hash), incoming_path(hash, purpose), nullptr, 0};
  struct stat seen {};
  if (::stat(source.kept.c_str(), &seen) == 0) {
    source.size_bytes = static_cast<std::uint64_t>(seen.st_size);
    return source;
  }
  for (const auto& [id, row] : rows_) {
    const auto at = row.originals.find(hash);
    if (at == row.originals.end()) continue;
    source.original = at->second.file;
    source.size_bytes = at->second.size_bytes;
    return source;
  }
  return failure(ErrorCode::not_found, "program file " + hex_of(hash) + " is not on this node");
}

Result<Fd> ProgramStore::open_kept(const Source& source) {
  Fd file(::open(source.kept.c_str(), O_RDONLY | O_CLOEXEC));
  if (file) return file;
  if (!source.original) return errno_failure("read " + source.kept, errno);
  auto copied = copy_file(*source.original, source.size_bytes, source.incoming);
  if (copied) copied = accept(source.incoming, source.kept, source.hash);
  if (!copied) return copied.error();
  file = Fd(::open(source.kept.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno_failure("read " + source.kept, errno);
  return file;
}

}  // namespace mobula::internal::worker
