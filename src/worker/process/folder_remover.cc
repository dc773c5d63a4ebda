#include "worker/process/folder_remover.h"

#include <filesystem>
#include <system_error>
#include <utility>

namespace mobula::internal::worker {

FolderRemover::FolderRemover() : thread_([this] { run(); }) {}

FolderRemover::~FolderRemover() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void FolderRemover::remove(std::string path) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= max_waiting) return;
    waiting_.push_back(std::move(path));
  }
  changed_.notify_one();
}

void FolderRemover::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    const std::string path = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::error_code ignored;  // what cannot be removed is in nobody's way
    std::filesystem::remove_all(path, ignored);
    lock.lock();
  }
}

}  // namespace mobula::internal::worker
