// Scenarios about results that stay in their executors, and about shared GPUs.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "e2e/driver/driver.h"

extern "C" char** environ;

namespace mobula::e2e {
namespace {

using mobula::Tensor;
using mobula::Transport;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int elements_of_a_result = 1 << 20;  // floats

// The first element is the id of the process that made the tensor.
Tensor made_here() {
  Tensor tensor = Tensor::zeros({elements_of_a_result});
  tensor.mutable_view<float>()[0] = static_cast<float>(::getpid());
  return tensor;
}
Tensor passed_on(const Tensor& tensor) {
  Tensor next = tensor.clone();
  next.mutable_view<float>()[1] = static_cast<float>(::getpid());
  return next;
}
bool made_by_this(const Tensor& tensor) {
  return tensor.view<float>()[0] == static_cast<float>(::getpid());
}
float maker_of(const Tensor& tensor) { return tensor.view<float>()[0]; }
int own_pid() { return ::getpid(); }

mobula::TaskOptions gpu(double gpus, double cpus = 1) {
  mobula::TaskOptions options;
  options.num_cpus = cpus;
  options.num_gpus = gpus;
  options.tensor_transport = Transport::automatic;
  return options;
}

// One GPU: tasks that need the whole GPU read a producer's result, in another class and in the same
// class.
int resident_on_one_gpu(const Words&) {
  Report report;
  const auto made = mobula::task<made_here>.options(gpu(1)).remote();
  report.holds("a consumer of the class runs where the result is",
               mobula::get(mobula::task<made_by_this>.options(gpu(1)).remote(made), seconds(60)));
  const auto maker =
      mobula::get(mobula::task<maker_of>.options(gpu(1, 0.5)).remote(made), seconds(60));
  report.holds("one of another class gets the GPU, and the result from the store", maker > 0);
  report.equal("it is there afterwards", mobula::get(made, seconds(60)).view<float>()[0], maker);
  auto last = mobula::task<made_here>.options(gpu(1)).remote();
  for (int i = 0; i < 4; ++i)
    last = mobula::task<passed_on>.options(gpu(1, i % 2 == 0 ? 0.5 : 1)).remote(last);
  report.holds("a chain of both classes", mobula::get(last, seconds(60)).view<float>()[1] > 0);
  return report.exit_code();
}

// max_calls = 1 of GPU tasks takes effect when the results are freed.
int resident_until_freed(const Words&) {
  Report report;
  auto made = mobula::task<made_here>.options(gpu(1)).remote();
  const int first = mobula::get(mobula::task<own_pid>.options(gpu(1)).remote(), seconds(60));
  report.equal("the process stays", first,
               static_cast<int>(mobula::get(made, seconds(60)).view<float>()[0]));
  made = {};
  int next = first;
  for (const auto end = std::chrono::steady_clock::now() + seconds(60);
       next == first && std::chrono::steady_clock::now() < end;) {
    next = mobula::get(mobula::task<own_pid>.options(gpu(1)).remote(), seconds(60));
  }
  report.holds("and exits after the last ref of its result", next != first);
  return report.exit_code();
}

// A result stays in its executor until the test has inspected it. Then another task needs the GPU.
int resident_shown(const Words&) {
  Report report;
  const auto made = mobula::task<made_here>.options(gpu(1)).remote();
  mobula::wait(std::vector{made}, {.num_returns = 1, .timeout = seconds(60), .fetch_local = false});
  tell("resident");
  hear();
  auto other = mobula::actor<Counter>.options({.num_gpus = 1}).remote();
  report.equal("an actor gets the GPU", mobula::get(other.call<&Counter::add>(2), seconds(60)), 2);
  report.holds("the result is not lost", mobula::get(made, seconds(60)).view<float>()[0] > 0);
  return report.exit_code();
}

// Child processes, each with a context on the GPU while this object lives.
class Contexts {
 public:
  Contexts(const std::string& program, int count) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
    for (int i = 0; i < count; ++i) {
      std::string path = program, word = "gpu-trial";
      std::array<char*, 3> argv{path.data(), word.data(), nullptr};
      pid_t pid = -1;
      if (::posix_spawn(&pid, path.c_str(), &actions, nullptr, argv.data(), environ) == 0)
        pids_.push_back(pid);
    }
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[0]);
    in_ = ends[1];
  }
  ~Contexts() {
    ::close(in_);
    for (const pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
  }
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;

 private:
  int in_ = -1;
  std::vector<pid_t> pids_;
};

// Holds the contexts until it is cancelled, at most 30 s.
int takes_contexts(const std::string& program, int count) {
  const Contexts contexts(program, count);
  for (const auto end = std::chrono::steady_clock::now() + seconds(30);
       std::chrono::steady_clock::now() < end;) {
    if (mobula::current().cancelled()) return 1;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return 0;
}

std::string variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "(not set)" : value;
}

std::string program_beside_this() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "mobula";
}

// Arguments: the number of contexts, the expected outcome ("error" or "fine"), and parts of the
// error.
int over_share(const Words& arguments) {
  Report report;
  mobula::TaskOptions options = gpu(0.25);
  options.name = "greedy";
  options.max_retries = 1;
  const auto greedy = mobula::task<takes_contexts>.options(options).remote(
      program_beside_this(), std::stoi(arguments.at(0)));
  if (arguments.at(1) == "fine") {
    tell("runs");
    hear();
    mobula::cancel(greedy);
    throws<mobula::TaskCancelledError>(report, "it ran until it was cancelled",
                                       [&] { mobula::get(greedy, seconds(60)); });
    return report.exit_code();
  }
  try {
    mobula::get(greedy, seconds(120));
    report.fail("it gave a value");
  } catch (const mobula::OutOfMemoryError& error) {
    tell(error.what());
  }
  report.holds("others get their share",
               mobula::get(mobula::task<own_pid>.options(gpu(0.25)).remote(), seconds(60)) > 0);
  return report.exit_code();
}

int framework_variables(const Words&) {
  for (const char* const name : {"PYTORCH_CUDA_ALLOC_CONF", "XLA_PYTHON_CLIENT_MEM_FRACTION"}) {
    auto own = gpu(0.5);
    own.env = {{name, "mine"}};
    tell(std::string(name) + " part: " +
         mobula::get(mobula::task<variable>.options(gpu(0.5)).remote(std::string(name)),
                     seconds(60)));
    tell(
        std::string(name) + " whole: " +
        mobula::get(mobula::task<variable>.options(gpu(1)).remote(std::string(name)), seconds(60)));
    tell(std::string(name) + " own: " +
         mobula::get(mobula::task<variable>.options(own).remote(std::string(name)), seconds(60)));
  }
  return 0;
}

}  // namespace

std::map<std::string, Scenario> residence_scenarios() {
  return {{"resident_on_one_gpu", &resident_on_one_gpu},
          {"resident_until_freed", &resident_until_freed},
          {"resident_shown", &resident_shown},
          {"over_share", &over_share},
          {"framework_variables", &framework_variables}};
}

}  // namespace mobula::e2e
