#include "transport/tensor/copy_threads.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/thread_start.h"

namespace mobula::internal {
namespace {

// Range that one fault populates by default (fault_around_bytes).
constexpr std::size_t fault_bytes = 64u << 10;

// Page faults inside a copy slow it down more than they cost here. Populating would cost time for
// every page, also for present ones.
void touch_pages(const std::byte* from, std::size_t size) {
  for (std::size_t at = 0; at < size; at += fault_bytes) {
    static_cast<void>(*static_cast<const volatile std::byte*>(from + at));
  }
}

Result<void> read_process(pid_t process, CopyPiece piece) {
  while (piece.size > 0) {
    const iovec here{piece.to, piece.size};
    const iovec there{const_cast<std::byte*>(piece.from), piece.size};
    const ssize_t count = ::process_vm_readv(process, &here, 1, &there, 1, 0);
    if (count > 0) {
      piece.to += count;
      piece.from += count;
      piece.size -= static_cast<std::size_t>(count);
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == ESRCH) {
      return failure(ErrorCode::unavailable,
                     fmt::format("read the memory of process {}: it has exited", process));
    }
    if (count == 0 || errno == EFAULT) {
      return failure(ErrorCode::corrupt,
                     fmt::format("read the memory of process {}: it has no {} bytes there", process,
                                 piece.size));
    }
    return errno_failure(fmt::format("read the memory of process {}", process), errno);
  }
  return {};
}

Result<void> copy_piece(const CopyPiece& piece, pid_t process, bool mapped) {
  if (piece.size == 0) return {};
  if (process != 0) return read_process(process, piece);
  if (mapped) touch_pages(piece.from, piece.size);
  std::memcpy(piece.to, piece.from, piece.size);
  return {};
}

}  // namespace

Result<void> copy_now(const Copy& copy) {
  for (const CopyPiece& piece : copy.pieces) {
    if (auto done = copy_piece(piece, copy.process, false); !done) return done;
  }
  return {};
}

class CopyThreads::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(EventLoop& loop, CopyOptions options) : loop_(loop), options_(options) {}

  Result<void> open();
  void close();
  Result<std::uint64_t> start(Copy copy);
  void stop(std::uint64_t number);

 private:
  // A position in the pieces of a copy.
  struct Position {
    std::size_t piece = 0;
    std::size_t at = 0;
  };
  struct Job {
    std::uint64_t number = 0;
    Copy copy;
    std::atomic<bool> stopped{false};
    // Under the lock.
    Position next;              // first position that no thread has taken
    std::size_t under_way = 0;  // slices
    CopyEnd end;
    bool all_taken() const { return next.piece == copy.pieces.size(); }
  };
  using JobPtr = std::shared_ptr<Job>;  // shared by the loop and the threads

  Result<void> start_threads();
  void run();
  // Under the lock: takes the next slice. Returns nullopt if no slice is left or the job must end.
  std::optional<Position> take(Job& job) const;
  Result<void> slice(const Job& job, Position from) const;
  template <class Visit>
  Position walk(const Job& job, Position from, const Visit& visit) const;
  void deliver();

  EventLoop& loop_;
  const CopyOptions options_;

  // Loop's thread.
  Fd ready_;
  Watch watch_;
  std::vector<std::thread> threads_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, JobPtr> jobs_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<JobPtr> waiting_ MOBULA_GUARDED_BY(mutex_);
  std::vector<JobPtr> ended_ MOBULA_GUARDED_BY(mutex_);
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;
};

Result<void> CopyThreads::Impl::open() {
  ready_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ready_) return errno_failure("create the wake descriptor of copies", errno);
  auto watch = loop_.watch(ready_.get(), Interest::read, [this](Readiness) { deliver(); });
  if (!watch) return watch.error();
  watch_ = std::move(watch).value();
  return {};
}

void CopyThreads::Impl::close() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    waiting_.clear();
  }
  for (const auto& [number, job] : jobs_) job->stopped = true;
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  jobs_.clear();
  const MutexLock lock(mutex_);
  ended_.clear();
  watch_.reset();
}

Result<void> CopyThreads::Impl::start_threads() {
  const std::size_t wanted =
      options_.threads > 0 ? options_.threads
                           : std::clamp<std::size_t>(std::thread::hardware_concurrency() / 2, 2, 4);
  while (threads_.size() < wanted) {
    auto started = start_thread("mobula-copy", [this] { run(); });
    if (!started) {
      if (!threads_.empty()) break;  // fewer threads are sufficient
      return started.error();
    }
    threads_.push_back(std::move(started).value());
  }
  return {};
}

Result<std::uint64_t> CopyThreads::Impl::start(Copy copy) {
  if (jobs_.size() >= options_.max_copies) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("copy: {} copies are under way, which is the limit", jobs_.size()));
  }
  if (threads_.empty()) {
    if (auto started = start_threads(); !started) return started.error();
  }
  auto job = std::make_shared<Job>();
  job->number = next_++;
  job->copy = std::move(copy);
  jobs_.emplace(job->number, job);
  const std::uint64_t number = job->number;
  {
    const MutexLock lock(mutex_);
    waiting_.push_back(std::move(job));
  }
  changed_.notify_one();
  return number;
}

void CopyThreads::Impl::stop(std::uint64_t number) {
  const auto at = jobs_.find(number);
  if (at != jobs_.end()) at->second->stopped = true;
}

void CopyThreads::Impl::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!ends_ && waiting_.empty()) changed_.wait(lock);
    if (ends_) return;
    const JobPtr job = std::move(waiting_.front());
    waiting_.pop_front();
    if (const auto from = take(*job)) {
      if (!job->all_taken()) {
        waiting_.push_back(job);
        changed_.notify_one();  // an idle thread helps
      }
      ++job->under_way;
      lock.unlock();
      auto result = slice(*job, *from);
      lock.lock();
      --job->under_way;
      if (!result && job->end.result) job->end.result = std::move(result);
    }
    if (!job->all_taken() || job->under_way > 0) continue;
    job->end.ended = monotonic_now();
    ended_.push_back(job);
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(ready_.get(), &one, sizeof one);
  }
}

std::optional<CopyThreads::Impl::Position> CopyThreads::Impl::take(Job& job) const {
  if (job.end.began == Time()) job.end.began = monotonic_now();
  if (job.stopped && !job.all_taken() && job.end.result) {
    job.end.result = failure(ErrorCode::cancelled, "a copy was stopped");
  }
  if (!job.end.result) job.next = {job.copy.pieces.size(), 0};
  if (job.all_taken()) return std::nullopt;
  const Position from = job.next;
  job.next = walk(job, from, [](const CopyPiece&) { return true; });
  return from;
}

Result<void> CopyThreads::Impl::slice(const Job& job, Position from) const {
  Result<void> result;
  walk(job, from, [&](const CopyPiece& part) {
    result = copy_piece(part, job.copy.process, job.copy.mapped);
    return result.ok();
  });
  return result;
}

// Visits the parts of the slice that begins at `at`, and returns the begin of the next slice.
template <class Visit>
CopyThreads::Impl::Position CopyThreads::Impl::walk(const Job& job, Position at,
                                                    const Visit& visit) const {
  std::size_t budget = options_.slice_bytes;
  while (at.piece < job.copy.pieces.size() && budget > 0) {
    const CopyPiece& whole = job.copy.pieces[at.piece];
    const std::size_t size = std::min(budget, whole.size - at.at);
    if (!visit(CopyPiece{whole.to + at.at, whole.from + at.at, size})) break;
    budget -= size;
    at.at += size;
    if (at.at == whole.size) at = {at.piece + 1, 0};
  }
  return at;
}

void CopyThreads::Impl::deliver() {
  const auto self = shared_from_this();
  std::uint64_t count = 0;
  [[maybe_unused]] const auto drained = ::read(ready_.get(), &count, sizeof count);
  std::vector<JobPtr> ended;
  {
    const MutexLock lock(mutex_);
    ended.swap(ended_);
  }
  for (const JobPtr& job : ended) {
    if (jobs_.erase(job->number) == 0) return;  // closed by a callback
    job->copy.keeps.reset();
    const auto answer = std::move(job->copy.ended);
    answer(job->end);
  }
}

Result<std::unique_ptr<CopyThreads>> CopyThreads::create(EventLoop& loop, CopyOptions options) {
  auto impl = std::make_shared<Impl>(loop, options);
  if (auto opened = impl->open(); !opened) return opened.error();
  return std::unique_ptr<CopyThreads>(new CopyThreads(std::move(impl)));
}

CopyThreads::~CopyThreads() { impl_->close(); }

Result<std::uint64_t> CopyThreads::start(Copy copy) { return impl_->start(std::move(copy)); }
void CopyThreads::stop(std::uint64_t copy) { impl_->stop(copy); }

}  // namespace mobula::internal
