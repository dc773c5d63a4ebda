// Tensors between eight executors that are killed and stopped at random. Data that arrives is
// correct, other reads fail with a matching error, and no resource leaks.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using mobula::Tensor;
using mobula::Transport;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr int executors = 8;
constexpr int deals_at_once = 6;

Tensor drawn(int count, std::uint32_t seed) {
  Tensor tensor = Tensor::empty({count}, mobula::DType::uint32);
  std::minstd_rand random(seed);
  for (auto& each : tensor.mutable_view<std::uint32_t>())
    each = static_cast<std::uint32_t>(random());
  return tensor;
}

std::uint64_t checksum_of(const Tensor& tensor) {
  std::uint64_t sum = 14695981039346656037ULL;
  for (const auto each : tensor.view<std::uint32_t>()) sum = (sum ^ each) * 1099511628211ULL;
  return sum;
}

class Trader {
 public:
  // Writes its process id to a file at each start.
  explicit Trader(const std::string& file) {
    std::ofstream(file + ".new") << ::getpid() << std::endl;
    std::filesystem::rename(file + ".new", file);
  }
  Tensor make(int count, std::uint32_t seed) { return drawn(count, seed); }
  std::uint64_t checksum(const Tensor& tensor) { return checksum_of(tensor); }
  std::vector<std::size_t> counts() const;  // descriptors, threads
};

std::size_t entries_in(const char* directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

std::vector<std::size_t> own_counts() {
  return {entries_in("/proc/self/fd"), entries_in("/proc/self/task")};
}
std::vector<std::size_t> Trader::counts() const { return own_counts(); }

// Kills and stops the processes named in files until it is destroyed. Then continues all stopped
// processes.
class Trouble {
 public:
  Trouble(std::vector<std::string> files, std::uint32_t seed)
      : files_(std::move(files)), random_(seed) {
    thread_ = std::thread([this] { run(); });
  }
  ~Trouble() {
    over_ = true;
    thread_.join();
  }
  int kills() const { return kills_; }
  int stops() const { return stops_; }

 private:
  pid_t process_of(std::size_t which) const {
    pid_t pid = 0;
    std::ifstream(files_.at(which)) >> pid;
    return pid;
  }
  void pause(int ms) const {
    for (const auto until = Clock::now() + std::chrono::milliseconds(ms);
         !over_ && Clock::now() < until;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  void run() {
    while (!over_) {
      const pid_t pid = process_of(random_() % files_.size());
      const auto what = random_() % 3;
      if (pid > 0 && what == 0) {
        ::kill(pid, SIGKILL);
        ++kills_;
        pause(400);
      } else if (pid > 0) {
        ::kill(pid, SIGSTOP);
        pause(static_cast<int>(random_() % 600));
        ::kill(pid, SIGCONT);
        ++stops_;
      }
      pause(static_cast<int>(random_() % 300));
    }
  }

  const std::vector<std::string> files_;
  std::minstd_rand random_;
  std::atomic<bool> over_{false};
  std::atomic<int> kills_{0}, stops_{0};
  std::thread thread_;
};

struct Deal {
  mobula::ObjectRef<Tensor> made;
  mobula::ObjectRef<std::uint64_t> seen;
  std::uint64_t expected = 0;
};

// Arguments: a directory, seconds, a seed.
int direct_chaos(const Words& arguments) {
  Report report;
  std::minstd_rand random(static_cast<std::uint32_t>(std::stoul(arguments.at(2))));
  std::vector<std::string> files;
  std::vector<mobula::ActorHandle<Trader>> traders;
  for (int i = 0; i < executors; ++i) {
    files.push_back(arguments.at(0) + "/trader" + std::to_string(i));
    traders.push_back(mobula::actor<Trader>
                          .options({.num_cpus = 0,
                                    .resources = {{i % 2 == 0 ? "even" : "odd", 1}},
                                    .max_restarts = -1,
                                    .max_task_retries = -1})
                          .remote(files.back()));
  }
  const Transport ways[] = {Transport::automatic, Transport::automatic, Transport::tcp,
                            Transport::shm};
  const auto deal = [&] {
    auto& maker = traders[random() % executors];
    auto& user = traders[random() % executors];
    const int count = 1 << (15 + random() % 5);  // 128 KiB to 2 MiB
    const auto seed = static_cast<std::uint32_t>(random());
    Deal made;
    made.made = maker.method<&Trader::make>()
                    .options({.tensor_transport = ways[random() % 4], .allow_fallback = true})
                    .remote(count, seed);
    made.seen = user.call<&Trader::checksum>(made.made);
    made.expected = checksum_of(drawn(count, seed));
    return made;
  };
  const auto settle = [&](Deal& each, bool faults) {
    try {
      report.equal("a checksum", mobula::get(each.seen, seconds(120)), each.expected);
      if (random() % 4 == 0)
        report.equal("a checksum here", checksum_of(mobula::get(each.made, seconds(120))),
                     each.expected);
      return true;
    } catch (const mobula::GetTimeoutError& stuck) {
      report.fail(std::string("stuck: ") + stuck.what());
    } catch (const mobula::Error& error) {
      if (!faults) report.fail(std::string("without faults: ") + error.what());
    }
    return false;
  };
  for (int i = 0; i < 2 * executors; ++i) {  // warm-up: connections, threads, and memory exist
    Deal first = deal();
    settle(first, false);
  }
  const auto before = own_counts();
  int done = 0, failed = 0, kills = 0, stops = 0;
  {
    Trouble trouble(files, static_cast<std::uint32_t>(random()));
    for (const auto until = Clock::now() + seconds(std::stoi(arguments.at(1)));
         Clock::now() < until;) {
      std::vector<Deal> deals;
      for (int i = 0; i < deals_at_once; ++i) deals.push_back(deal());
      for (auto& each : deals) ++(settle(each, true) ? done : failed);
    }
    kills = trouble.kills();
    stops = trouble.stops();
  }
  // All executors work again and use no more resources than before.
  for (int i = 0; i < 3 * executors; ++i) {
    Deal last = deal();
    settle(last, false);
  }
  tell("dealt " + std::to_string(done) + ", failed " + std::to_string(failed) + ", kills " +
       std::to_string(kills) + ", stops " + std::to_string(stops));
  report.holds("something went through", done > 0);
  report.holds("something was killed or stopped", kills + stops > 0);
  report.holds("most went through", failed * 4 <= done);
  const auto comes_down = [&](auto counts) {
    for (const auto until = Clock::now() + seconds(60); Clock::now() < until;
         std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
      const std::vector<std::size_t> now = counts();
      // Each other executor may have a connection, a ring, and a doorbell, in each direction.
      if (now[0] <= before[0] + 6 * executors && now[1] <= before[1] + 4) return true;
    }
    return false;
  };
  report.holds("descriptors and threads of the driver", comes_down(&own_counts));
  for (auto& each : traders) {
    report.holds("descriptors and threads of an executor", comes_down([&] {
                   return mobula::get(each.call<&Trader::counts>(), seconds(60));
                 }));
  }
  tell("quiet");
  hear();
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> chaos_scenarios() { return {{"direct_chaos", &direct_chaos}}; }

}  // namespace mobula::e2e
