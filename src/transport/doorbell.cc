#include "transport/doorbell.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>

namespace mobula::internal {
namespace {

// The word lies in memory of several processes, so these are not private futexes.
long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value,
           const timespec* at_most) {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), operation, value, at_most,
                   nullptr, 0);
}

void wake(DoorbellPage* page, int event) {
  const auto awake = static_cast<std::uint32_t>(Doorbell::Sleep::awake);
  if (page->sleep.load(std::memory_order_seq_cst) == awake) return;
  const auto slept = page->sleep.exchange(awake, std::memory_order_seq_cst);
  if (slept == static_cast<std::uint32_t>(Doorbell::Sleep::on_word)) {
    futex(&page->sleep, FUTEX_WAKE, INT_MAX, nullptr);
  } else if (slept == static_cast<std::uint32_t>(Doorbell::Sleep::on_event)) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event, &one, sizeof(one));
  }
}

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

void Doorbell::collect(const std::function<void(std::size_t)>& look) {
  if (page()->groups.load(std::memory_order_seq_cst) == 0) return;
  std::uint64_t groups = page()->groups.exchange(0, std::memory_order_seq_cst);
  while (groups != 0) {
    const auto group = static_cast<std::size_t>(std::countr_zero(groups));
    groups &= groups - 1;
    std::uint64_t ready = page()->ready[group].exchange(0, std::memory_order_seq_cst);
    while (ready != 0) {
      look(group * 64 + static_cast<std::size_t>(std::countr_zero(ready)));
      ready &= ready - 1;
    }
  }
}

void Doorbell::sleep(std::optional<Duration> at_most) const {
  timespec limit{};
  if (at_most) {
    const std::int64_t ns = std::max<std::int64_t>(at_most->count(), 0);
    limit = {ns / 1'000'000'000, ns % 1'000'000'000};
  }
  futex(&page()->sleep, FUTEX_WAIT, static_cast<std::uint32_t>(Sleep::on_word),
        at_most ? &limit : nullptr);
}

void Doorbell::clear_event() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(files_.event.get(), &count, sizeof(count));
}

void Doorbell::ring_self() {
  self_.store(true, std::memory_order_seq_cst);
  wake(page(), files_.event.get());
}

Result<DoorbellRinger> DoorbellRinger::open(DoorbellFiles files) {
  auto memory = SharedMemory::map(files.page.get(), doorbell_page_bytes);
  if (!memory) return memory.error();
  return DoorbellRinger(std::move(files.event), std::move(*memory));
}

void DoorbellRinger::ring(std::size_t index) const {
  auto* const page = reinterpret_cast<DoorbellPage*>(memory_.data());
  page->ready[index / 64].fetch_or(std::uint64_t{1} << (index % 64), std::memory_order_seq_cst);
  page->groups.fetch_or(std::uint64_t{1} << (index / 64), std::memory_order_seq_cst);
  wake(page, event_.get());
}

}  // namespace mobula::internal
