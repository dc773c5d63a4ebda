// Kills and stops processes of a lease at each of its steps, with a real agent and real executors;
// this test is head and lessee. Every call ends with its value, or not at all and with a reported
// cause. The next generation works, and no process or descriptor remains.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "agent_process.h"
#include "lessee.h"
#include "mobula/context.h"
#include "mobula/task.h"
#include "worker/process/watch/process_tree.h"

namespace mobula::internal::worker {
namespace {

// ---- tasks of the executors ---------------------------------------------------------------------

const char* lease_dir() { return std::getenv("LEASE_FOLDER"); }
bool is_there(const std::string& name) {
  return std::filesystem::exists(std::filesystem::path(lease_dir()) / name);
}

int seven() { return 7; }
// Runs until the test creates the file `go`, or the caller has exited.
int holds() {
  std::ofstream(std::filesystem::path(lease_dir()) / "runs").flush();
  while (!is_there("go") && !mobula::current().cancelled()) std::this_thread::sleep_for(1ms);
  return 8;
}

template <auto F>
std::uint64_t offset_of() {
  namespace library = mobula::detail;
  return library::Registry::instance().key_of(library::TaskEntry<F, false>::entry).offset;
}

// ---- steps -------------------------------------------------------------------------------------

enum class Step {
  granted,       // the head has sent the order; no reply yet
  forked,        // the process exists or is being created
  started,       // it has reported that it is ready
  ring_offered,  // the lessee has received its ring and has not accepted it
  called,        // a call is in the ring
  runs,          // the call is running
  taken_back,    // another call waits behind it, and its return is requested
  answered,      // the call has its reply
  returned,      // the head has taken the slot back
};
constexpr Step all_steps[] = {Step::granted,      Step::forked,   Step::started,
                              Step::ring_offered, Step::called,   Step::runs,
                              Step::taken_back,   Step::answered, Step::returned};

std::string name_of(Step step) {
  constexpr const char* names[] = {"Granted", "Forked",    "Started",  "RingOffered", "Called",
                                   "Runs",    "TakenBack", "Answered", "Returned"};
  return names[static_cast<std::size_t>(step)];
}

class LeaseTest : public AgentProcessTest {
 protected:
  LeaseTest() { std::filesystem::create_directories(lease()); }
  ~LeaseTest() override { lessee_.reset(); }

  // Starts an agent that has had a lease before, so that descriptors it opens once are open.
  void start(const std::string& log) {
    agent_ = start_agent(log);
    ASSERT_TRUE(until([&] { return is_ready(log); })) << text_of(log);
    begin_job();
    go_to(Step::returned);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(until([&] { return gone(start_) != nullptr; }));
    end_job();
    ASSERT_TRUE(until([&] { return sockets_left().empty(); })) << sockets_left();
    descriptors_before_ = settled_descriptors();
    targets_before_ = descriptor_targets();
    begin_job();
  }
  void begin_job() {
    job_ = JobId::random();
    const auto file = load_agent_file(agent_json().string()).value();
    lessee_ = std::make_unique<Lessee>(*loop_, file.socket, job_);
    ASSERT_TRUE(until([&] { return lessee_->attached(); }));
    program_ = describe_program(0).value();
    program_.source = lessee_->node();
    program_.arguments = {"service-test"};
    program_.working_dir = directory_.string();
    StartJob start;
    start.job = job_;
    start.driver = lessee_->process();
    start.program = program_;
    lessee_->say(ForHead{start});
    ASSERT_TRUE(until([&] {
      return head_->received<FromProcess>(
          [&](const auto& each) { return each.process == lessee_->process(); });
    }));
    std::filesystem::remove(lease() / "runs");
    std::filesystem::remove(lease() / "go");
    executor_ = {};
    ring_ = held_ = behind_ = 0;
    beside_.reset();
  }
  void end_job() {
    head_->say(JobEnded{job_, {}, false});
    lessee_.reset();
    ASSERT_TRUE(until([&] { return children_of(agent_).empty(); })) << "a process is left";
  }

  bool until(const std::function<bool()>& condition) {
    return AgentProcessTest::until([&] {
      if (lessee_) lessee_->read_rings();
      return condition();
    });
  }

  StartSlot next_slot() {
    StartSlot start;
    start.slot = SlotId::of(++slots_);
    start.demand_class.id = ClassId::of(1);
    start.demand_class.job = job_;
    start.demand_class.program = program_.id;
    start.lessee = lessee_->process();
    start.program = program_;
    start.job_env = {{"MOBULA_SERVICE_TEST", "real"}, {"LEASE_FOLDER", lease().string()}};
    return start;
  }
  std::filesystem::path lease() const { return directory_ / "lease"; }
  void let_go() { std::ofstream(lease() / "go").flush(); }
  template <auto F>
  std::uint64_t call(ProcessId executor) {
    return lessee_->call(executor, {program_.id, offset_of<F>()});
  }

  // Executors with a slot, and prestarted ones.
  std::vector<PidIdentity> executors() const {
    std::vector<PidIdentity> found;
    for (const pid_t child : children_of(agent_)) {
      const auto mark = environment_of(child, process_variable);
      const auto stat = read_stat(child);
      if (mark && *mark != ProcessId().hex() && stat && is_running(stat->identity))
        found.push_back(stat->identity);
    }
    return found;
  }
  static void strike(const std::vector<PidIdentity>& processes, int signal) {
    for (const auto& process : processes) (void)signal_process(process, signal);
  }
  // Leaves time for reactions to silence.
  void turn_a_while() {
    for (int i = 0; i < 10; ++i) loop_->turn(5ms);
  }

  // Runs the protocol up to this step, from the last reached one.
  void go_to(Step step) {
    if (step == Step::granted) {
      // The prestarted executor for the slot can be struck before it is assigned.
      beside_ = next_slot();
      head_->say(*beside_);
      ASSERT_TRUE(until([&] { return started(*beside_) && executors().size() == 2; }));
    }
    start_ = next_slot();
    head_->say(start_);
    if (step == Step::granted) return;
    if (step == Step::forked) {
      ASSERT_TRUE(until([&] { return !executors().empty(); }));
      return;
    }
    go_on_to(step);
  }
  void go_on_to(Step step) {
    ASSERT_TRUE(until([&] { return started(start_) || gone(start_); }));
    ASSERT_EQ(gone(start_), nullptr) << gone(start_)->cause.text;
    executor_ = started(start_)->endpoint.process;
    if (step == Step::started) return;
    ASSERT_TRUE(until([&] { return lessee_->is_offered(executor_) || ring_ != 0; }));
    if (step == Step::ring_offered) return;
    if (ring_ == 0) ring_ = lessee_->take_ring(executor_);
    if (held_ == 0) held_ = call<&holds>(executor_);
    if (step == Step::called) return;
    ASSERT_TRUE(until([&] { return std::filesystem::exists(lease() / "runs"); }));
    if (step == Step::runs) return;
    if (behind_ == 0) {
      behind_ = call<&seven>(executor_);
      lessee_->take_back(executor_);
    }
    if (step == Step::taken_back) return;
    ASSERT_TRUE(until([&] { return lessee_->handed_back(executor_, behind_); }));
    let_go();
    ASSERT_TRUE(until([&] { return !lessee_->replies(executor_, held_).empty(); }));
    if (step == Step::answered) return;
    head_->say(StopSlot{start_.slot, true, "returned"});
  }

  static int value_of(const CallReply& reply) {
    EXPECT_EQ(reply.outcome, CallOutcome::value);
    mobula::detail::StoredValue value;
    value.bytes = reply.results.at(0).bytes.bytes();
    return mobula::detail::decode<int>(value);
  }
  // In each case no call has two replies, and a returned call did not run.
  void expect_calls_were_run_once(bool answered) {
    lessee_->read_rings();
    const auto replies = lessee_->replies(executor_, held_);
    EXPECT_EQ(replies.size(), answered ? 1u : 0u);
    if (answered && !replies.empty()) {
      EXPECT_EQ(value_of(replies.front()), 8);
    }
    if (behind_ != 0) {
      EXPECT_TRUE(lessee_->replies(executor_, behind_).empty());
    }
  }
  // Expects a reply from an executor of this slot after `before`.
  void expect_it_works(ProcessId before) {
    std::map<ProcessId, std::uint64_t> calls;
    ProcessId executor;
    ASSERT_TRUE(until([&] {
      const auto ready = lessee_->ready_after(start_.slot, before);
      if (!ready) return gone(start_) != nullptr;
      executor = ready->endpoint.process;
      if (lessee_->is_offered(executor)) (void)lessee_->take_ring(executor);
      if (!lessee_->has_ring_to(executor)) return false;
      if (!calls.contains(executor)) calls[executor] = call<&seven>(executor);
      return !lessee_->replies(executor, calls[executor]).empty();
    }));
    ASSERT_EQ(gone(start_), nullptr) << gone(start_)->cause.text;
    ASSERT_EQ(lessee_->replies(executor, calls[executor]).size(), 1u);
    EXPECT_EQ(value_of(lessee_->replies(executor, calls[executor]).front()), 7);
  }

  // Returns the slots and ends the job: the agent has the same descriptors as before.
  void expect_nothing_left(bool graceful = true) {
    for (const StartSlot& each : {start_, beside_.value_or(start_)}) {
      if (gone(each) == nullptr) head_->say(StopSlot{each.slot, graceful, "the test is done"});
      ASSERT_TRUE(until([&] { return gone(each) != nullptr; }));
    }
    end_job();
    // May be less: on a loaded machine the agent had not closed all descriptors of the first job
    // when they were counted.
    EXPECT_TRUE(until([&] { return descriptors() <= descriptors_before_; }))
        << descriptors() << " descriptors are open, and were " << descriptors_before_
        << "; new are:" << new_descriptors();
    // The last socket is removed a moment after its process has exited.
    EXPECT_TRUE(until([&] { return sockets_left().empty(); }))
        << "sockets are left: " << sockets_left();
  }
  std::string sockets_left() const {
    std::string out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_)) {
      if (entry.path().extension() == ".ipc") out += entry.path().string() + " ";
    }
    return out;
  }
  // Number of open descriptors of the agent, once it is stable.
  std::size_t settled_descriptors() {
    std::size_t seen = descriptors();
    for (int same = 0; same < 10; ++same) {
      loop_->turn(5ms);
      const std::size_t now = descriptors();
      if (now != seen) same = 0;
      seen = now;
    }
    return seen;
  }
  std::size_t descriptors() const {
    std::error_code code;
    const std::filesystem::directory_iterator files("/proc/" + std::to_string(agent_) + "/fd",
                                                    code);
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
  }

  // Targets of the descriptors, by number; distinguishes eventfds and pidfds among themselves.
  std::map<std::string, std::string> descriptor_targets() const {
    std::map<std::string, std::string> targets;
    const std::filesystem::path process("/proc/" + std::to_string(agent_));
    std::error_code code;
    for (const auto& file : std::filesystem::directory_iterator(process / "fd", code)) {
      std::string target = std::filesystem::read_symlink(file.path(), code).string();
      std::ifstream details(process / "fdinfo" / file.path().filename());
      for (std::string line; std::getline(details, line);) {
        if (line.starts_with("ino") || line.starts_with("Pid") || line.starts_with("eventfd-id")) {
          target += ", " + line;
        }
      }
      targets.emplace(file.path().filename().string(), std::move(target));
    }
    return targets;
  }
  std::string new_descriptors() const {
    std::string out;
    for (const auto& [number, target] : descriptor_targets()) {
      const auto before = targets_before_.find(number);
      if (before == targets_before_.end() || before->second != target)
        out += "\n  " + number + ": " + target;
    }
    return out;
  }

  pid_t agent_ = 0;
  std::size_t descriptors_before_ = 0;
  std::map<std::string, std::string> targets_before_;
  JobId job_;
  std::unique_ptr<Lessee> lessee_;
  std::uint64_t slots_ = 0;
  std::optional<StartSlot> beside_;  // another slot, if present
  StartSlot start_;
  ProcessId executor_;  // first executor of `start_`; empty: unknown
  std::uint64_t ring_ = 0;
  std::uint64_t held_ = 0;
  std::uint64_t behind_ = 0;
};

// ---- rings --------------------------------------------------------------------------------------

TEST_F(LeaseTest, CallerClosesRing_NewRingIsOffered) {
  start("log");
  go_to(Step::answered);
  if (HasFatalFailure()) return;
  std::set<std::uint64_t> rings{ring_};
  for (int i = 0; i < 20; ++i) {
    lessee_->close_ring(executor_, *rings.rbegin());
    lessee_->say(OpenRingRequest{executor_});
    ASSERT_TRUE(until([&] { return lessee_->is_offered(executor_); }));
    const auto ring = lessee_->take_ring(executor_);
    EXPECT_TRUE(rings.insert(ring).second) << "a returned ring was reused";
    const auto number = call<&seven>(executor_);
    ASSERT_TRUE(until([&] { return !lessee_->replies(executor_, number).empty(); }));
    EXPECT_EQ(value_of(lessee_->replies(executor_, number).front()), 7);
  }
  expect_nothing_left();
}

class LeaseKill : public LeaseTest, public ::testing::WithParamInterface<Step> {};

// ---- executors ----------------------------------------------------------------------------------

TEST_P(LeaseKill, ExecutorKilled_NextGenerationStarts) {
  start("log");
  go_to(GetParam());
  if (HasFatalFailure()) return;
  strike(executors(), SIGKILL);
  if (GetParam() == Step::returned) {
    ASSERT_TRUE(until([&] { return gone(start_) != nullptr; }));
  } else {
    expect_it_works(executor_);
    if (HasFatalFailure()) return;
  }
  if (GetParam() >= Step::started && GetParam() < Step::returned) {
    const auto* ended = head_->received<SlotGenerationEnded>(
        [&](const SlotGenerationEnded& each) { return each.process == executor_; });
    ASSERT_NE(ended, nullptr) << "a next generation without the end of the one before";
    EXPECT_EQ(ended->cause.signal, SIGKILL);
  }
  if (ring_ != 0) {
    EXPECT_TRUE(until([&] { return lessee_->has_received_end(ring_); }));
    expect_calls_were_run_once(GetParam() >= Step::answered);
  }
  expect_nothing_left();
}

TEST_P(LeaseKill, ExecutorStopped_IsNotReportedDead) {
  start("log");
  go_to(GetParam());
  if (HasFatalFailure()) return;
  const auto struck = executors();
  strike(struck, SIGSTOP);
  turn_a_while();
  EXPECT_EQ(gone(start_), nullptr);
  EXPECT_EQ(head_->received<SlotGenerationEnded>(
                [&](const SlotGenerationEnded& each) { return each.slot == start_.slot; }),
            nullptr);
  strike(struck, SIGCONT);
  if (GetParam() < Step::returned) go_on_to(Step::answered);
  if (HasFatalFailure()) return;
  expect_calls_were_run_once(true);
  expect_nothing_left();
}

TEST_P(LeaseKill, ExecutorStaysStopped_SlotEndKillsIt) {
  start("log");
  go_to(GetParam());
  if (HasFatalFailure()) return;
  strike(executors(), SIGSTOP);
  turn_a_while();
  if (ring_ != 0) expect_calls_were_run_once(GetParam() >= Step::answered);
  for (const StartSlot& each : {start_, beside_.value_or(start_)}) {
    head_->say(StopSlot{each.slot, false, "it stands still"});
  }
  expect_nothing_left(false);
}

// ---- lessees ------------------------------------------------------------------------------------

TEST_P(LeaseKill, LesseeDied_LeavesNothing) {
  start("log");
  go_to(GetParam());
  if (HasFatalFailure()) return;
  const ProcessId lessee = lessee_->process();
  lessee_.reset();  // closes its link and its rings, as after a kill
  ASSERT_TRUE(until([&] {
    return head_->received<ProcessEnded>(
        [&](const ProcessEnded& each) { return each.process == lessee; });
  }));
  // As the head does.
  for (const StartSlot& each : {start_, beside_.value_or(start_)}) {
    if (gone(each) == nullptr) head_->say(StopSlot{each.slot, false, "its lessee has ended"});
  }
  expect_nothing_left(false);
}

// ---- agents -------------------------------------------------------------------------------------

TEST_P(LeaseKill, AgentKilled_ExecutorsDieAndNextAgentWorks) {
  start("first");
  go_to(GetParam());
  if (HasFatalFailure()) return;
  const auto all = descendants_of(agent_);
  ::kill(agent_, SIGKILL);
  EXPECT_EQ(end_of(agent_), 128 + SIGKILL);
  EXPECT_TRUE(until([&] { return std::ranges::none_of(all, is_running); }))
      << "a process has outlived its agent";
  EXPECT_TRUE(until([&] { return lessee_->closed(); }));
  if (ring_ != 0) expect_calls_were_run_once(GetParam() >= Step::answered);

  start("second");
  if (HasFatalFailure()) return;
  go_to(Step::answered);
  if (HasFatalFailure()) return;
  expect_calls_were_run_once(true);
  expect_nothing_left();
}

TEST_P(LeaseKill, AgentStopped_RingCallsContinue) {
  start("log");
  go_to(GetParam());
  if (HasFatalFailure()) return;
  ::kill(agent_, SIGSTOP);
  turn_a_while();
  if (ring_ != 0 && GetParam() < Step::returned) {
    go_on_to(Step::answered);
    if (!HasFatalFailure()) expect_calls_were_run_once(true);
  }
  ::kill(agent_, SIGCONT);
  if (GetParam() < Step::returned) go_on_to(Step::answered);
  if (HasFatalFailure()) return;
  expect_calls_were_run_once(true);
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(AtEachStep, LeaseKill, ::testing::ValuesIn(all_steps),
                         [](const auto& step) { return name_of(step.param); });

}  // namespace
}  // namespace mobula::internal::worker
