#include "transport/ring/doorbell.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace mobula::internal {
namespace {

// Several processes share the word, so these are not private futexes.
long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value,
           const timespec* at_most) {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), operation, value, at_most,
                   nullptr, 0);
}

void sleep_on(std::atomic<std::uint32_t>& word, DoorbellSleep announced,
              std::optional<Duration> at_most) {
  timespec limit{};
  if (at_most) {
    const std::int64_t ns = std::max<std::int64_t>(at_most->count(), 0);
    limit = {ns / 1'000'000'000, ns % 1'000'000'000};
  }
  futex(&word, FUTEX_WAIT, static_cast<std::uint32_t>(announced), at_most ? &limit : nullptr);
}

struct Kernel {
  int event = -1;

  void wake_word(std::atomic<std::uint32_t>& word) const {
    futex(&word, FUTEX_WAKE, INT_MAX, nullptr);
  }
  void wake_event() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event, &one, sizeof(one));
  }
};

}  // namespace

Result<DoorbellFiles> DoorbellFiles::create() {
  auto page = SharedMemory::create_file(doorbell_page_bytes, "mobula-doorbell");
  if (!page) return page.error();
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return errno_failure("make the eventfd of a doorbell", errno);
  return DoorbellFiles{std::move(*page), std::move(event)};
}

Result<DoorbellFiles> DoorbellFiles::copy() const {
  auto page_copy = copy_of(page);
  if (!page_copy) return page_copy.error();
  auto event_copy = copy_of(event);
  if (!event_copy) return event_copy.error();
  return DoorbellFiles{std::move(*page_copy), std::move(*event_copy)};
}

Result<Doorbell> Doorbell::open(DoorbellFiles files) {
  auto memory = SharedMemory::map(files.page.get(), doorbell_page_bytes);
  if (!memory) return memory.error();
  return Doorbell(std::move(files), std::move(*memory));
}

Doorbell::Doorbell(Doorbell&& other) noexcept
    : files_(std::move(other.files_)),
      memory_(std::move(other.memory_)),
      self_(other.self_.load(std::memory_order_relaxed)) {}

void Doorbell::collect(const std::function<void(std::size_t)>& visit) {
  collect_rung(*page(), visit);
}

void Doorbell::sleep(std::optional<Duration> at_most) const {
  sleep_on(page()->sleep, Sleep::on_word, at_most);
}

void Doorbell::sleep_coalesced(Duration at_most) const {
  sleep_on(page()->sleep, Sleep::coalesced, at_most);
}

void Doorbell::clear_event() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(files_.event.get(), &count, sizeof(count));
}

void Doorbell::ring(std::size_t index) {
  ring_doorbell(*page(), index, Kernel{files_.event.get()});
}

void Doorbell::ring_self() {
  self_.store(true, std::memory_order_seq_cst);
  wake_sleeper(*page(), Kernel{files_.event.get()});
}

Result<DoorbellRinger> DoorbellRinger::open(DoorbellFiles files) {
  auto memory = SharedMemory::map(files.page.get(), doorbell_page_bytes);
  if (!memory) return memory.error();
  return DoorbellRinger(std::move(files.event), std::move(*memory));
}

void DoorbellRinger::ring(std::size_t index) const {
  ring_doorbell(page(), index, Kernel{event_.get()});
}

bool DoorbellRinger::ring_deferred(std::size_t index) const {
  return internal::ring_deferred(page(), index, Kernel{event_.get()});
}

void DoorbellRinger::wake_up() const { end_timed_sleep(page(), Kernel{event_.get()}); }

}  // namespace mobula::internal
