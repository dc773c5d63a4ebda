#include "worker/process/dir_remover.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/logging/log.h"
#include "base/mutex.h"

namespace mobula::internal::worker {
namespace {

namespace fs = std::filesystem;

// Files in directories without write permission cannot be removed, not even by the owner: adds the
// permission.
void let_owner_in(const fs::path& directory) {
  std::error_code skipped;
  const auto open_up = [&](const fs::path& path) {
    fs::permissions(path, fs::perms::owner_all, fs::perm_options::add | fs::perm_options::nofollow,
                    skipped);
  };
  open_up(directory);
  fs::recursive_directory_iterator at(directory, fs::directory_options::skip_permission_denied,
                                      skipped);
  for (const fs::recursive_directory_iterator end; at != end; at.increment(skipped)) {
    std::error_code unknown;
    if (at->symlink_status(unknown).type() == fs::file_type::directory) open_up(at->path());
    if (skipped) return;
  }
}

void remove_dir(const std::string& path) {
  std::error_code why;
  fs::remove_all(path, why);
  if (why == std::errc::permission_denied) {
    let_owner_in(path);
    why.clear();
    fs::remove_all(path, why);
  }
  if (why) log_warn("{} is not removed: {}", path, why.message());
}

}  // namespace

DirRemover::DirRemover() : thread_([this] { run(); }) {}

DirRemover::~DirRemover() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void DirRemover::remove(std::string path) {
  {
    const MutexLock lock(mutex_);
    if (waiting_.size() >= max_waiting) return;
    waiting_.push_back(std::move(path));
  }
  changed_.notify_one();
}

void DirRemover::run() {
  MutexLock lock(mutex_);
  while (true) {
    while (!ending_ && waiting_.empty()) changed_.wait(lock);
    if (ending_) return;
    const std::string path = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    remove_dir(path);
    lock.lock();
  }
}

}  // namespace mobula::internal::worker
