#include "transport/tensor/gpu/device_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/thread_start.h"
#include "device/host.h"
#include "transport/tensor/chunk_stage.h"
#include "transport/tensor/mailbox.h"

namespace mobula::internal {
namespace {

// Interval between two polls of running copies, and limit of running slices per copy.
constexpr auto copy_poll_interval = std::chrono::microseconds(20);
constexpr std::size_t slices_under_way = 2;

cuda_abi::Address address_of(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

}  // namespace

class DeviceCopies::Impl : public Poster, public std::enable_shared_from_this<Impl> {
 public:
  Impl(EventLoop& loop, std::shared_ptr<const GpuContext> context, DeviceCopyOptions options)
      : options_(options),
        context_(std::move(context)),
        slices_(std::make_shared<DeviceSlices>(
            DeviceSlices{PinnedSlices(context_, large_enough(options.pinned)),
                         PinnedSlices(context_, large_enough(options.pinned))})),
        box_(std::make_shared<Mailbox>(loop)) {}

  Result<void> open();
  void close();
  Result<std::uint64_t> start(Copy copy);
  void stop(std::uint64_t number);
  void post(std::function<void()> work) override;
  void watch(std::function<bool()> step) override { steps_.push_back(std::move(step)); }
  void tell(std::function<void()> news) override { box_->push(std::move(news)); }
  void run_then(std::function<std::function<void()>()> work);
  const std::shared_ptr<DeviceSlices>& slices() const { return slices_; }

 private:
  // A running slice and its pinned memory. When complete, its bytes are copied to `to` in host
  // memory.
  struct Slice {
    GpuEvent event;
    PinnedSlice by;
    std::byte* to;
    std::size_t size;
  };
  struct Job {
    std::uint64_t number = 0;
    Copy copy;
    std::atomic<bool> stopped{false};
    // Device's thread.
    std::size_t piece = 0;
    std::size_t at = 0;
    std::optional<bool> by_host;  // the piece is in pageable host memory at one end
    bool to_host = false;
    std::deque<Slice> slices;
    CopyEnd end;
  };
  using JobPtr = std::shared_ptr<Job>;  // shared by the loop and the thread

  void serve();
  bool is_idle() const { return active_.empty() && steps_.empty(); }
  void take(std::vector<std::function<void()>>& work);
  // Returns true if any copy was issued or has ended.
  bool advance();
  bool check_job(Job& job);
  bool issue(Job& job);
  bool issue_by_host(Job& job);
  Result<void> copy_async(std::byte* to, const std::byte* from, std::size_t size);
  void mark(Job& job, PinnedSlice by, std::byte* to, std::size_t size);
  void check_piece(Job& job) const;
  static void go_on(Job& job, std::size_t size);
  bool is_of_host(const void* at) const;
  void finish(const JobPtr& job);

  static PinnedSliceOptions large_enough(PinnedSliceOptions slices) {
    slices.slice_bytes = std::max(slices.slice_bytes, staged_chunk_bytes);
    return slices;
  }

  const DeviceCopyOptions options_;
  const std::shared_ptr<const GpuContext> context_;  // shared with all memory of the device
  const std::shared_ptr<DeviceSlices> slices_;       // shared with the copies in progress
  const std::shared_ptr<Mailbox> box_;               // shared with tasks posted to the loop

  // Loop's thread.
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, JobPtr> jobs_;
  std::thread thread_;

  // Device's thread.
  std::optional<GpuStream> stream_;
  std::vector<JobPtr> active_;
  std::vector<std::function<bool()>> steps_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> work_ MOBULA_GUARDED_BY(mutex_);
  std::vector<JobPtr> fresh_ MOBULA_GUARDED_BY(mutex_);
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;
  bool gone_ MOBULA_GUARDED_BY(mutex_) = false;  // the thread has ended
};

Result<void> DeviceCopies::Impl::open() {
  auto stream = GpuStream::create(context_);
  if (!stream) return stream.error();
  stream_.emplace(std::move(stream).value());
  auto started = start_thread("mobula-device", [this] {
    (void)run_on(options_.cpus);
    serve();
  });
  if (!started) return started.error();
  thread_ = std::move(started).value();
  return {};
}

void DeviceCopies::Impl::close() {
  box_->close();
  for (const auto& [number, job] : jobs_) job->stopped = true;
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  jobs_.clear();
  stream_.reset();
}

Result<std::uint64_t> DeviceCopies::Impl::start(Copy copy) {
  if (jobs_.size() >= options_.max_copies) {
    return failure(
        ErrorCode::resource_exhausted,
        fmt::format("copy: {} copies of a device are under way, which is the limit", jobs_.size()));
  }
  auto job = std::make_shared<Job>();
  job->number = next_++;
  job->copy = std::move(copy);
  jobs_.emplace(job->number, job);
  const std::uint64_t number = job->number;
  {
    const MutexLock lock(mutex_);
    fresh_.push_back(std::move(job));
  }
  changed_.notify_one();
  return number;
}

void DeviceCopies::Impl::stop(std::uint64_t number) {
  const auto at = jobs_.find(number);
  if (at != jobs_.end()) at->second->stopped = true;
}

void DeviceCopies::Impl::post(std::function<void()> work) {
  {
    const MutexLock lock(mutex_);
    if (!gone_) {
      work_.push_back(std::move(work));
      work = nullptr;
    }
  }
  if (work) return work();
  changed_.notify_one();
}

void DeviceCopies::Impl::run_then(std::function<std::function<void()>()> work) {
  post([work = std::move(work), box = box_] { box->push(work()); });
}

// Runs until close(), and then until no copy is in progress.
void DeviceCopies::Impl::serve() {
  std::vector<std::function<void()>> work;
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (is_idle() && !ends_ && work_.empty() && fresh_.empty()) changed_.wait(lock);
      if (ends_ && is_idle() && fresh_.empty() && work_.empty()) {
        gone_ = true;
        return;
      }
      work.assign(std::make_move_iterator(work_.begin()), std::make_move_iterator(work_.end()));
      work_.clear();
      active_.insert(active_.end(), fresh_.begin(), fresh_.end());
      fresh_.clear();
    }
    for (auto& each : work) each();
    work.clear();
    for (std::size_t i = steps_.size(); i-- > 0;) {
      auto step = std::move(steps_[i]);  // the step may add others
      if (step()) {
        steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        steps_[i] = std::move(step);
      }
    }
    if (advance() || is_idle()) continue;
    const auto until = std::chrono::steady_clock::now() + copy_poll_interval;
    MutexLock lock(mutex_);
    while (work_.empty() && fresh_.empty() && changed_.wait_until(lock, until)) {
    }
  }
}

bool DeviceCopies::Impl::advance() {
  bool moved = false;
  for (std::size_t i = 0; i < active_.size();) {
    Job& job = *active_[i];
    if (job.end.began == Time()) job.end.began = monotonic_now();
    moved = check_job(job) || moved;
    const bool more = job.piece < job.copy.pieces.size() && job.end.result && !job.stopped;
    if (more && job.slices.size() < slices_under_way) moved = issue(job) || moved;
    const bool over = job.slices.empty() &&
                      (job.piece == job.copy.pieces.size() || !job.end.result || job.stopped);
    if (!over) {
      ++i;
      continue;
    }
    moved = true;
    finish(active_[i]);
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return moved;
}

// Removes completed slices.
bool DeviceCopies::Impl::check_job(Job& job) {
  bool moved = false;
  while (!job.slices.empty()) {
    Slice& slice = job.slices.front();
    const auto over = slice.event.over();
    if (over && !*over) return moved;
    // Nothing more is written after the context is lost.
    if (!over && job.end.result) job.end.result = over.error();
    if (over && slice.to != nullptr && !job.stopped)
      std::memcpy(slice.to, slice.by.bytes().data(), slice.size);
    job.slices.pop_front();
    moved = true;
  }
  return moved;
}

// True for memory unknown to the driver. Pinned and device memory are used directly.
bool DeviceCopies::Impl::is_of_host(const void* at) const {
  int attribute = cuda_abi::pointer_memory_type, type = 0;
  void* to = &type;
  const auto status = context_->call().pointer_attributes(1, &attribute, &to, address_of(at));
  return status == cuda_abi::success && type == 0;
}

void DeviceCopies::Impl::check_piece(Job& job) const {
  const CopyPiece& piece = job.copy.pieces[job.piece];
  job.to_host = piece.size > 0 && is_of_host(piece.to);
  job.by_host = job.to_host || (piece.size > 0 && is_of_host(piece.from));
}

Result<void> DeviceCopies::Impl::copy_async(std::byte* to, const std::byte* from,
                                            std::size_t size) {
  return context_->driver().check(
      "cuMemcpyAsync",
      context_->call().copy_async(address_of(to), address_of(from), size, stream_->get()));
}

// Returns false while no pinned slice is free.
bool DeviceCopies::Impl::issue(Job& job) {
  const GpuContext::Current current(*context_);
  job.end.result = current.made();
  std::uint64_t budget = options_.slice_bytes;
  while (job.end.result && budget > 0 && job.piece < job.copy.pieces.size()) {
    if (!job.by_host) check_piece(job);
    if (*job.by_host && budget == options_.slice_bytes) return issue_by_host(job);
    if (*job.by_host) break;
    const CopyPiece& whole = job.copy.pieces[job.piece];
    const std::size_t size = std::min<std::uint64_t>(budget, whole.size - job.at);
    job.end.result = copy_async(whole.to + job.at, whole.from + job.at, size);
    if (!job.end.result) break;
    budget -= size;
    go_on(job, size);
  }
  mark(job, {}, nullptr, 0);
  return true;
}

// Uses a slice of pinned memory.
bool DeviceCopies::Impl::issue_by_host(Job& job) {
  PinnedSlices& slices = job.to_host ? slices_->out : slices_->in;
  job.end.result = slices.open();
  if (!job.end.result) return true;
  PinnedSlice slice = slices.take();
  if (!slice) return false;
  const CopyPiece& whole = job.copy.pieces[job.piece];
  std::byte* const to = whole.to + job.at;
  const std::byte* const from = whole.from + job.at;
  std::byte* const by = slice.bytes().data();
  const std::size_t size = std::min(slice.bytes().size(), whole.size - job.at);
  if (!job.to_host) std::memcpy(by, from, size);
  job.end.result = job.to_host ? copy_async(by, from, size) : copy_async(to, by, size);
  if (!job.end.result) return true;
  mark(job, std::move(slice), job.to_host ? to : nullptr, size);
  go_on(job, size);
  return true;
}

void DeviceCopies::Impl::go_on(Job& job, std::size_t size) {
  job.at += size;
  if (job.at < job.copy.pieces[job.piece].size) return;
  ++job.piece;
  job.at = 0;
  job.by_host.reset();
}

// Operations that were issued before a failure are awaited, too.
void DeviceCopies::Impl::mark(Job& job, PinnedSlice by, std::byte* to, std::size_t size) {
  auto event = GpuEvent::create(context_);
  Result<void> marked = event ? event->record(stream_->get()) : Result<void>(event.error());
  if (marked) {
    job.slices.push_back({std::move(*event), std::move(by), to, size});
  } else {
    (void)stream_->synchronize();
    if (job.end.result) job.end.result = marked;
  }
}

void DeviceCopies::Impl::finish(const JobPtr& job) {
  if (job->end.result && job->piece < job->copy.pieces.size()) {
    job->end.result = failure(ErrorCode::cancelled, "a copy was stopped");
  }
  job->end.ended = monotonic_now();
  box_->push([self = shared_from_this(), job] {
    if (self->jobs_.erase(job->number) == 0) return;
    job->copy.keeps.reset();
    const auto answer = std::move(job->copy.ended);
    answer(job->end);
  });
}

Result<std::unique_ptr<DeviceCopies>> DeviceCopies::create(
    EventLoop& loop, std::shared_ptr<const GpuContext> context, DeviceCopyOptions options) {
  auto impl = std::make_shared<Impl>(loop, std::move(context), options);
  if (auto opened = impl->open(); !opened) return opened.error();
  return std::unique_ptr<DeviceCopies>(new DeviceCopies(std::move(impl)));
}

DeviceCopies::~DeviceCopies() { impl_->close(); }

Result<std::uint64_t> DeviceCopies::start(Copy copy) { return impl_->start(std::move(copy)); }
void DeviceCopies::stop(std::uint64_t copy) { impl_->stop(copy); }
std::shared_ptr<DeviceCopies::Poster> DeviceCopies::poster() const { return impl_; }
const std::shared_ptr<DeviceSlices>& DeviceCopies::slices() const { return impl_->slices(); }
void DeviceCopies::run(std::function<std::function<void()>()> work) {
  impl_->run_then(std::move(work));
}

}  // namespace mobula::internal
