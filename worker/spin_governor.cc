#include "worker/spin_governor.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

namespace mobula::internal::worker {
namespace {

constexpr Duration sample_interval = 50ms;
constexpr Duration idle_sample_interval = 1s;
constexpr int samples_until_idle = 4;

// Processors that threads of this process may use.
int own_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int machine_processors() { return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))); }

// "0.20 0.18 0.12 1/80 11206": the fourth field is the number of running threads, of all threads.
std::optional<int> running_threads(const Fd& load) {
  std::array<char, 128> text{};
  const auto size = ::pread(load.get(), text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  std::string_view rest(text.data(), static_cast<std::size_t>(size));
  for (int i = 0; i < 3; ++i) {
    const auto blank = rest.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(blank + 1);
  }
  int running = 0;
  const auto [end, wrong] = std::from_chars(rest.data(), rest.data() + rest.size(), running);
  if (wrong != std::errc() || end == rest.data() + rest.size() || *end != '/') return std::nullopt;
  return running;
}

}  // namespace

std::size_t IdleCpuEstimate::sample(int running, int spinning) {
  others_[next_++ % others_.size()] = std::max(0, running - spinning);
  const int always = *std::min_element(others_.begin(), others_.end());
  return static_cast<std::size_t>(
      std::clamp(processors_ - always, 0, std::max(0, std::min(processors_, own_) - 1)));
}

Result<std::unique_ptr<SpinGovernor>> SpinGovernor::create(EventLoop& loop,
                                                           SpinLimitOptions options) {
  auto file = SpinBudget::create_file();
  if (!file) return file.error();
  auto page = SpinBudget::open(file->get());
  if (!page) return page.error();
  return std::unique_ptr<SpinGovernor>(
      new SpinGovernor(loop, options, std::move(*file), std::move(*page)));
}

SpinGovernor::SpinGovernor(EventLoop& loop, const SpinLimitOptions& options, Fd file,
                           SpinBudget page)
    : file_(std::move(file)),
      page_(std::move(page)),
      idle_cpus_(machine_processors(), own_processors()),
      timer_(loop, [this] { sample(); }) {
  page_.set_longest(options.longest);
  if (options.longest <= Duration(0)) return;
  load_ = Fd(::open(options.load_file.c_str(), O_RDONLY | O_CLOEXEC));
  sample();
}

// The sampling thread itself is running, too. If the load is not available, no thread may spin.
void SpinGovernor::sample() {
  const auto running = load_ ? running_threads(load_) : std::nullopt;
  page_.set_permits(running ? idle_cpus_.sample(*running - 1, static_cast<int>(page_.taken())) : 0);
  if (!running) return;
  unused_samples_ = page_.take_requested() ? 0 : unused_samples_ + 1;
  const bool rests = unused_samples_ >= samples_until_idle;
  timer_.arm(monotonic_now() + (rests ? idle_sample_interval : sample_interval));
}

}  // namespace mobula::internal::worker
