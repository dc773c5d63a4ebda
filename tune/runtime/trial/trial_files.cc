#include "tune/runtime/trial/trial_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/fd.h"

namespace mobula::internal::tune {
namespace {

namespace fs = std::filesystem;

Failure file_fault(const char* operation, const std::string& path, const std::error_code& error) {
  const bool full = error == std::errc::no_space_on_device || error.value() == EDQUOT;
  return failure(full ? ErrorCode::resource_exhausted : ErrorCode::unavailable,
                 fmt::format("{} {}: {}", operation, path, error.message()));
}

Result<void> sync_path(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::fsync(file.get()) != 0)
    return file_fault("sync", path, std::error_code(errno, std::generic_category()));
  return {};
}

Result<void> sync_tree(const std::string& directory) {
  std::error_code error;
  for (fs::recursive_directory_iterator each(directory, error), end; !error && each != end;
       each.increment(error)) {
    if (!each->is_regular_file(error) && !each->is_directory(error)) continue;
    if (Result<void> synced = sync_path(each->path()); !synced) return synced;
  }
  if (error) return file_fault("sync", directory, error);
  return sync_path(directory);
}

}  // namespace

Result<void> make_directory(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return file_fault("create directory", path, error);
  return {};
}

void remove_directory(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
}

void remove_unknown_directories(const std::string& parent, const std::set<std::string>& known) {
  std::error_code error;
  for (fs::directory_iterator each(parent, error), end; !error && each != end;
       each.increment(error))
    if (!known.contains(each->path().string())) remove_directory(each->path());
}

Result<void> check_shared_storage(const std::string& checkpoints) {
  const std::string directory = fs::path(checkpoints).parent_path().string();
  std::error_code error;
  if (fs::exists(directory + "/experiment.sqlite", error)) return {};
  return failure(ErrorCode::unavailable,
                 fmt::format("save checkpoint: {} has no experiment.sqlite on this node; pass a "
                             "RunOptions::storage_path that all nodes see",
                             directory));
}

Result<void> check_checkpoint(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return {};
  return failure(ErrorCode::unavailable,
                 fmt::format("continue from checkpoint {}: no such directory on this node; pass a "
                             "RunOptions::storage_path that all nodes see",
                             path));
}

Result<void> copy_checkpoint(const std::string& source, const std::string& target) {
  std::error_code error;
  if (!fs::is_directory(source, error))
    return failure(ErrorCode::invalid_argument,
                   fmt::format("report: checkpoint {}: not a directory; write the files before "
                               "the report",
                               source));
  const std::string temporary = target + ".tmp";
  remove_directory(temporary);
  fs::create_directories(fs::path(temporary).parent_path(), error);
  if (!error) fs::copy(source, temporary, fs::copy_options::recursive, error);
  if (error) return file_fault("copy checkpoint", source, error);
  return publish_checkpoint(temporary, target);
}

Result<void> publish_checkpoint(const std::string& temporary, const std::string& target) {
  if (Result<void> synced = sync_tree(temporary); !synced) return synced;
  std::error_code error;
  remove_directory(target);
  fs::rename(temporary, target, error);
  if (error) return file_fault("rename", temporary, error);
  return sync_path(fs::path(target).parent_path());
}

}  // namespace mobula::internal::tune
