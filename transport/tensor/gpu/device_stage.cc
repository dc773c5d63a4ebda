#include "transport/tensor/gpu/device_stage.h"

#include <fmt/format.h>

#include <atomic>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace mobula::internal {

class DeviceStage::Impl final : public ChunkStage, public std::enable_shared_from_this<Impl> {
 public:
  Impl(std::shared_ptr<const GpuContext> context, const DeviceCopies& copies,
       DeviceStageOptions options)
      : options_(options),
        context_(std::move(context)),
        thread_(copies.poster()),
        slices_(copies.slices()) {}

  void read(std::span<const std::byte> from, std::function<bool()> wanted,
            std::function<void(Result<StagedChunk>)> done) override;
  std::optional<StagedChunk> allocate(ProcessId holder, std::uint64_t size,
                                      std::function<void()> freed) override;
  void write(std::byte* to, StagedChunk chunk, std::function<void(Result<void>)> done) override;
  void close();

 private:
  struct Read {
    std::span<const std::byte> from;
    std::function<bool()> wanted;
    std::function<void(Result<StagedChunk>)> done;
  };

  void one_less(ProcessId holder);
  // Device's thread.
  void pump();
  std::function<void()> on_slice_free();
  void begin(Read read, PinnedSlice slice);
  Result<void> ready();
  // Copies, and calls `ended` when the copy is complete.
  void copy(std::byte* to, const std::byte* from, std::size_t size,
            std::function<void(Result<void>)> ended);

  const DeviceStageOptions options_;
  const std::shared_ptr<const GpuContext> context_;     // shared with all memory of the device
  const std::shared_ptr<DeviceCopies::Poster> thread_;  // shared with DeviceCopies
  const std::shared_ptr<DeviceSlices> slices_;          // shared with the copies of the device
  std::atomic<bool> closed_ = false;
  std::atomic<bool> wants_slices_ = false;  // an allocation of the slices is requested
  std::atomic<std::size_t> waiting_reads_ = 0;

  Mutex mutex_;
  std::map<ProcessId, std::size_t> held_ MOBULA_GUARDED_BY(mutex_);  // receive buffers, by holder
  // Receivers that wait because their holder reached its limit.
  std::vector<std::function<void()>> capped_ MOBULA_GUARDED_BY(mutex_);

  // Device's thread.
  std::optional<GpuStream> stream_;
  std::deque<Read> reads_;  // waiting for a slice
  bool awaits_slice_ = false;
};

Result<void> DeviceStage::Impl::ready() {
  if (closed_) return failure(ErrorCode::cancelled, "the device's stage has ended");
  if (stream_) return {};
  auto stream = GpuStream::create(context_);
  if (!stream) return stream.error();
  stream_.emplace(std::move(*stream));
  return {};
}

void DeviceStage::Impl::copy(std::byte* to, const std::byte* from, std::size_t size,
                             std::function<void(Result<void>)> ended) {
  if (auto is_ready = ready(); !is_ready) return ended(is_ready);
  const GpuContext::Current current(*context_);
  if (!current.made()) return ended(current.made());
  auto issued = context_->driver().check(
      "cuMemcpyAsync",
      context_->call().copy_async(reinterpret_cast<std::uintptr_t>(to),
                                  reinterpret_cast<std::uintptr_t>(from), size, stream_->get()));
  auto made = issued ? GpuEvent::create(context_) : Result<GpuEvent>(issued.error());
  auto marked = made ? made->record(stream_->get()) : Result<void>(made.error());
  if (!marked) {
    (void)stream_->synchronize();  // issued copies use the slice
    return ended(marked);
  }
  // Shared, because functions are copied.
  const auto event = std::make_shared<GpuEvent>(std::move(*made));
  thread_->watch([event, ended = std::move(ended)] {
    const auto over = event->over();
    if (over && !*over) return false;
    ended(over ? Result<void>() : Result<void>(over.error()));
    return true;
  });
}

// ---- out of the device -------------------------------------------------------------------------

void DeviceStage::Impl::read(std::span<const std::byte> from, std::function<bool()> wanted,
                             std::function<void(Result<StagedChunk>)> done) {
  if (from.size() > slices_->out.slice_bytes()) {
    return done(failure(ErrorCode::invalid_argument,
                        fmt::format("a chunk of {} bytes of a device; at most {} go at once",
                                    from.size(), slices_->out.slice_bytes())));
  }
  if (waiting_reads_.fetch_add(1) >= options_.max_reads) {
    --waiting_reads_;
    return done(failure(ErrorCode::resource_exhausted,
                        fmt::format("{} chunks of the device are pending, which is the limit",
                                    options_.max_reads)));
  }
  thread_->post(
      [self = shared_from_this(), read = Read{from, std::move(wanted), std::move(done)}]() mutable {
        self->reads_.push_back(std::move(read));
        self->pump();
      });
}

// Starts as many reads as slices are free.
void DeviceStage::Impl::pump() {
  while (!reads_.empty()) {
    const auto fails = [&](const Failure& why) {
      auto gone = std::move(reads_.front());
      reads_.pop_front();
      --waiting_reads_;
      gone.done(why);
    };
    if (closed_ || !reads_.front().wanted()) {
      fails(failure(ErrorCode::cancelled, "no reader waits for the chunk any more"));
      continue;
    }
    if (auto opened = slices_->out.open(); !opened) {
      fails(opened.error());
      continue;
    }
    auto slice = slices_->out.take_spare(awaits_slice_ ? nullptr : on_slice_free());
    if (!slice) {
      awaits_slice_ = true;
      return;
    }
    auto read = std::move(reads_.front());
    reads_.pop_front();
    --waiting_reads_;
    begin(std::move(read), std::move(slice));
  }
}

std::function<void()> DeviceStage::Impl::on_slice_free() {
  return [self = weak_from_this(), thread = thread_] {
    thread->post([self] {
      const auto alive = self.lock();
      if (!alive) return;
      alive->awaits_slice_ = false;
      alive->pump();
    });
  };
}

void DeviceStage::Impl::begin(Read read, PinnedSlice slice) {
  const auto kept = std::make_shared<const PinnedSlice>(std::move(slice));
  const auto bytes = kept->bytes().first(read.from.size());
  copy(bytes.data(), read.from.data(), bytes.size(),
       [kept, bytes, done = std::move(read.done)](const Result<void>& copied) {
         done(copied ? Result<StagedChunk>(StagedChunk{bytes, kept})
                     : Result<StagedChunk>(copied.error()));
       });
}

// ---- into the device ---------------------------------------------------------------------------

std::optional<StagedChunk> DeviceStage::Impl::allocate(ProcessId holder, std::uint64_t size,
                                                       std::function<void()> freed) {
  if (size > slices_->in.slice_bytes()) return std::nullopt;
  {
    const MutexLock lock(mutex_);
    const auto at = held_.find(holder);
    if (at != held_.end() && at->second >= slices_->in.most_for_one()) {
      if (freed) capped_.push_back(std::move(freed));
      return std::nullopt;
    }
  }
  if (auto slice = slices_->in.take_spare(std::move(freed))) {
    {
      const MutexLock lock(mutex_);
      ++held_[holder];
    }
    const auto bytes = slice.bytes().first(size);
    auto kept = std::make_shared<PinnedSlice>(std::move(slice));
    const void* const at = bytes.data();
    return StagedChunk{bytes, std::shared_ptr<const void>(at, [self = shared_from_this(), holder,
                                                               kept](const void*) mutable {
                         *kept = PinnedSlice();
                         self->one_less(holder);
                       })};
  }
  if (!wants_slices_.exchange(true)) {
    thread_->post([self = shared_from_this()] {
      if (!self->closed_) (void)self->slices_->in.open();
      self->wants_slices_ = false;  // retried later if the allocation failed
    });
  }
  return std::nullopt;
}

// Notifies all receivers that wait for the limit of a holder, of any holder.
void DeviceStage::Impl::one_less(ProcessId holder) {
  std::vector<std::function<void()>> callbacks;
  {
    const MutexLock lock(mutex_);
    const auto at = held_.find(holder);
    if (--at->second == 0) held_.erase(at);
    callbacks.swap(capped_);
  }
  for (const auto& each : callbacks) each();
}

void DeviceStage::Impl::write(std::byte* to, StagedChunk chunk,
                              std::function<void(Result<void>)> done) {
  thread_->post([self = shared_from_this(), to, chunk = std::move(chunk), done = std::move(done)] {
    self->copy(to, chunk.bytes.data(), chunk.bytes.size(),
               [chunk, done](const Result<void>& copied) { done(copied); });
  });
}

// ---- the end -----------------------------------------------------------------------------------

void DeviceStage::Impl::close() {
  closed_ = true;
  thread_->post([self = shared_from_this()] { self->pump(); });
}

DeviceStage::DeviceStage(std::shared_ptr<const GpuContext> context, DeviceCopies& copies,
                         DeviceStageOptions options)
    : impl_(std::make_shared<Impl>(std::move(context), copies, options)) {}
DeviceStage::~DeviceStage() { impl_->close(); }
std::shared_ptr<ChunkStage> DeviceStage::stage() const { return impl_; }

}  // namespace mobula::internal
