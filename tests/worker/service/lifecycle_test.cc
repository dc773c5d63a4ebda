#include <fstream>
#include <iterator>
#include <optional>

#include "protocol/messages/fork_server_wire.h"
#include "service_fixture.h"
#include "worker/process/watch/process_tree.h"

namespace mobula::internal::worker {
namespace {

TEST_F(ServiceTest, RegistersNodeAndServesDrivers) {
  start_registered();
  const RegisterRequest& enrol = head_->registrations().front();
  EXPECT_EQ(enrol.address.node, node_);
  EXPECT_EQ(enrol.address.incarnation, service_->incarnation());
  EXPECT_EQ(enrol.shape.total("GPU"), Quantity::whole(4));
  EXPECT_TRUE(enrol.address.control.starts_with("127.0.0.1:"));
  EXPECT_TRUE(enrol.address.bulk.starts_with("127.0.0.1:"));

  FakeDriver& driver = attach_driver();
  const auto* attached = driver.received<DriverAttached>();
  EXPECT_EQ(attached->node, node_);
  const auto ticket =
      check_ticket(attached->ticket, attached->head_signing_key, wall_clock_ms(), {}).value();
  EXPECT_EQ(ticket.process, driver.process());
  EXPECT_EQ(ticket.curve_key, driver.keys().public_key);
  EXPECT_EQ(ticket.principal.role, Role::driver);
}

TEST_F(ServiceTest, HeadAbsent_ExitsWithoutWaiting) {
  auto settings = options();
  settings.waits_for_head = false;
  head_.reset();
  service_ = WorkerService::create(*loop_, std::move(settings)).value();
  ASSERT_TRUE(until([&] { return service_->end().has_value(); }));
  EXPECT_EQ(service_->end()->code, 3);
  EXPECT_NE(service_->end()->why.find("no process listens at "), std::string::npos)
      << service_->end()->why;
}

TEST_F(ServiceTest, DriverBeforeHeadReply_IsServedLater) {
  head_->admits = false;
  start();
  ASSERT_TRUE(until([&] { return !head_->registrations().empty(); }));
  drivers_.push_back(std::make_unique<FakeDriver>(*loop_, service_->socket_path(), job_));
  drivers_.back()->attach();
  head_->admits = true;
  EXPECT_TRUE(until([&] { return drivers_.back()->received<DriverAttached>() != nullptr; }));
}

TEST_F(ServiceTest, RunsRealExecutorUntilSlotIsStopped) {
  FakeDriver& driver = start_with_program();
  const StartSlot start = slot(1, "real", driver);
  head_->say(start);
  ASSERT_TRUE(until([&] { return started(start) || gone(start); }));
  ASSERT_EQ(gone(start), nullptr) << gone(start)->cause.text << gone(start)->cause.last_lines;
  const Endpoint endpoint = started(start)->endpoint;
  EXPECT_EQ(endpoint.node, node_);
  EXPECT_TRUE(endpoint.address.starts_with("127.0.0.1:"));
  EXPECT_TRUE(std::filesystem::exists(endpoint.local));
  EXPECT_TRUE(until([&] { return driver.received<FromHead>() != nullptr; }))
      << "the agent itself tells a lessee of its node";

  head_->say(StopSlot{start.slot, false, "the test is done"});
  ASSERT_TRUE(until([&] { return gone(start) != nullptr; }));
  EXPECT_FALSE(std::filesystem::exists(endpoint.local));
  EXPECT_EQ(service_->core().census().slots, 0u);
}

TEST_F(ServiceTest, ExecutorKilled_NextGenerationStarts) {
  FakeDriver& driver = start_with_program();
  const StartSlot start = slot(2, "real", driver);
  head_->say(start);
  ASSERT_TRUE(until([&] { return started(start) != nullptr; }));
  const ProcessId first = started(start)->endpoint.process;
  const auto pid = static_cast<pid_t>(pid_of(first));
  ASSERT_GT(pid, 0);
  ::kill(pid, SIGKILL);
  ASSERT_TRUE(until([&] { return started(start, 1) != nullptr; }));
  const auto* ended = head_->received<SlotGenerationEnded>();
  ASSERT_NE(ended, nullptr);
  EXPECT_EQ(ended->process, first);
  EXPECT_EQ(ended->cause.signal, SIGKILL);
  EXPECT_EQ(ended->cause.pid, pid);
  EXPECT_NE(started(start, 1)->endpoint.process, first);
}

TEST_F(ServiceTest, ShowsExecutorOnlyItsDevices) {
  FakeDriver& driver = start_with_program();
  StartSlot start = slot(3, "small", driver);
  start.allocation.resources = {{"GPU", {{1, Quantity::whole(1), 0}, {3, Quantity::whole(1), 0}}}};
  StartSlot without = slot(4, "small", driver);
  head_->say(start);
  head_->say(without);
  ASSERT_TRUE(until([&] { return driver.has_line("CUDA_VISIBLE_DEVICES=1,3"); }));
  EXPECT_TRUE(until([&] { return driver.has_line("GPU has 1;3;"); }));
  EXPECT_TRUE(driver.has_line("CUDA_DEVICE_ORDER=PCI_BUS_ID"));
  EXPECT_TRUE(driver.has_line("OF_THE_JOB=yes"));
  ASSERT_TRUE(until([&] { return started(without) != nullptr; }));
  EXPECT_TRUE(until([&] {
    for (const auto& message : driver.said) {
      const auto* lines = std::get_if<LogLines>(&message);
      if (lines == nullptr) continue;
      for (const auto& line : lines->lines) {
        if (line == "CUDA_VISIBLE_DEVICES=") return true;
      }
    }
    return false;
  })) << "devices that were not given are hidden";
}

class ReserveTest : public ServiceTest {
 protected:
  // Socket of the n-th executor of this agent.
  std::string socket(int number) const {
    return std::filesystem::path(service_->socket_path()).parent_path() /
           (std::to_string(number) + ".ipc");
  }
  // The prestarted executor: marked as an executor, and not `other`.
  std::optional<pid_t> reserve_beside(std::int64_t other) const {
    for (const pid_t child : children_of(::getpid())) {
      const auto mark = environment_of(child, process_variable);
      if (child != other && mark && *mark != ProcessId().hex() &&
          is_running(read_stat(child)->identity))
        return child;
    }
    return std::nullopt;
  }
};

TEST_F(ReserveTest, NextSlot_UsesPrestartedExecutor) {
  FakeDriver& driver = start_with_program();
  const StartSlot first = slot(1, "real", driver);
  head_->say(first);
  ASSERT_TRUE(until([&] { return std::filesystem::exists(socket(2)); }))
      << "no executor was prestarted";
  const StartSlot second = slot(2, "real", driver);
  head_->say(second);
  ASSERT_TRUE(until([&] { return started(second) != nullptr; }));
  EXPECT_EQ(started(second)->endpoint.local, socket(2));
  ASSERT_TRUE(until([&] { return std::filesystem::exists(socket(3)); })) << "there is a next one";
  EXPECT_EQ(service_->core().census().slots, 2u) << "which has no slot";

  // After the end of its job, no executor is prestarted for it.
  head_->say(StopSlot{first.slot, true, "done"});
  head_->say(StopSlot{second.slot, true, "done"});
  head_->say(JobEnded{job_, {}, false});
  // Two if both slots were started at once.
  EXPECT_TRUE(until(
      [&] { return !std::filesystem::exists(socket(3)) && !std::filesystem::exists(socket(4)); }));
  EXPECT_FALSE(std::filesystem::exists(socket(5)));
}

TEST_F(ReserveTest, PrestartedExecutorDied_IsReplaced) {
  FakeDriver& driver = start_with_program();
  const StartSlot first = slot(1, "real", driver);
  head_->say(first);
  ASSERT_TRUE(until([&] { return started(first) && std::filesystem::exists(socket(2)); }));
  const auto reserve = reserve_beside(pid_of(started(first)->endpoint.process));
  ASSERT_TRUE(reserve);
  ::kill(*reserve, SIGKILL);
  ASSERT_TRUE(until([&] { return !std::filesystem::exists(socket(2)); }));
  EXPECT_EQ(gone(first), nullptr);
  const StartSlot second = slot(2, "real", driver);
  head_->say(second);
  ASSERT_TRUE(until([&] { return started(second) != nullptr; }));
  EXPECT_EQ(started(second)->endpoint.local, socket(3));
}

// An exiting process does this a moment before its end.
TEST_F(ReserveTest, PrestartedWithClosedLink_IsNotUsed) {
  settings_.prestart_idle_timeout = 3600s;
  FakeDriver& driver = start_with_program();
  const StartSlot first = slot(1, "small", driver);
  head_->say(first);
  ASSERT_TRUE(until([&] { return started(first) && std::filesystem::exists(socket(2)); }));
  const auto reserve = reserve_beside(pid_of(started(first)->endpoint.process));
  ASSERT_TRUE(reserve);
  ::kill(*reserve, SIGUSR1);  // closes its link, and stays
  ASSERT_TRUE(until([&] { return !std::filesystem::exists(socket(2)); }))
      << "it is kept, and hears nothing";
  const StartSlot second = slot(2, "small", driver);
  head_->say(second);
  ASSERT_TRUE(until([&] { return started(second) != nullptr; }));
  EXPECT_EQ(started(second)->endpoint.local, socket(3));
}

TEST_F(ReserveTest, EvictsLongestUnusedPrestartedExecutor) {
  settings_.max_reserves = 1;
  FakeDriver& driver = start_with_program();
  const StartSlot first = slot(1, "real", driver);
  head_->say(first);
  ASSERT_TRUE(until([&] { return started(first) && std::filesystem::exists(socket(2)); }));
  StartSlot other = slot(2, "real", driver);
  other.job_env["OF_THE_JOB"] = "another";
  head_->say(other);
  ASSERT_TRUE(until([&] { return started(other) && std::filesystem::exists(socket(4)); }));
  EXPECT_EQ(started(other)->endpoint.local, socket(3))
      << "its variables are read at the start of a program";
  EXPECT_TRUE(until([&] { return !std::filesystem::exists(socket(2)); }));
  EXPECT_TRUE(std::filesystem::exists(socket(1))) << "the one in use is left alone";
  EXPECT_EQ(gone(first), nullptr);
}

TEST_F(ReserveTest, PrestartsAsManyAsWereStartedTogether) {
  FakeDriver& driver = start_with_program();
  std::vector<StartSlot> first;
  for (std::uint64_t i = 1; i <= 3; ++i) first.push_back(slot(i, "real", driver));
  for (const auto& each : first) head_->say(each);
  for (const auto& each : first) ASSERT_TRUE(until([&] { return started(each) != nullptr; }));
  // Sockets 1 to 3 belong to them, or to a prestarted executor that one of them has taken.
  ASSERT_TRUE(until([&] { return std::filesystem::exists(socket(6)); }))
      << "fewer than three stand ready";
  std::vector<StartSlot> second;
  for (std::uint64_t i = 4; i <= 6; ++i) second.push_back(slot(i, "real", driver));
  for (const auto& each : second) head_->say(each);
  for (const auto& each : second) {
    ASSERT_TRUE(until([&] { return started(each) != nullptr; }));
    const std::string local = started(each)->endpoint.local;
    EXPECT_TRUE(local == socket(4) || local == socket(5) || local == socket(6)) << local;
  }
}

TEST_F(ReserveTest, LimitsPrestartedExecutors) {
  settings_.max_reserves = 2;
  FakeDriver& driver = start_with_program();
  std::vector<StartSlot> slots;
  for (std::uint64_t i = 1; i <= 5; ++i) slots.push_back(slot(i, "real", driver));
  for (const auto& each : slots) head_->say(each);
  for (const auto& each : slots) ASSERT_TRUE(until([&] { return started(each) != nullptr; }));
  ASSERT_TRUE(until([&] { return std::filesystem::exists(socket(7)); }));
  for (int i = 0; i < 20; ++i) loop_->turn(5ms);
  EXPECT_FALSE(std::filesystem::exists(socket(8)));
}

TEST_F(ReserveTest, UnusedPrestartedExecutor_Exits) {
  settings_.prestart_idle_timeout = 0s;
  FakeDriver& driver = start_with_program();
  const StartSlot first = slot(1, "real", driver);
  head_->say(first);
  ASSERT_TRUE(until([&] { return started(first) != nullptr; }));
  const auto pid = pid_of(started(first)->endpoint.process);
  EXPECT_TRUE(until([&] { return !reserve_beside(pid) && !std::filesystem::exists(socket(2)); }));
  EXPECT_EQ(gone(first), nullptr) << "the one in use is left alone";
}

TEST_F(ServiceTest, DeliversLastOutputBeforeEnd) {
  FakeDriver& driver = start_with_program();
  const StartSlot start = slot(5, "small", driver);
  head_->say(start);
  ASSERT_TRUE(until([&] { return started(start) != nullptr; }));
  head_->say(StopSlot{start.slot, true, "done"});
  ASSERT_TRUE(until([&] { return gone(start) != nullptr; }));
  EXPECT_EQ(gone(start)->cause.kind, EndKind::retired);
  std::ifstream log(directory_ / "agent" / "logs" /
                    ("slot-" + start.slot.brief() + "." + start.demand_class.job.hex() + ".log"));
  const std::string text((std::istreambuf_iterator<char>(log)), {});
  EXPECT_NE(text.find("OF_THE_JOB=yes"), std::string::npos);
}

TEST_F(ServiceTest, ReportsMissingProgramFiles) {
  FakeDriver& driver = start_with_program();
  StartSlot start = slot(6, "real", driver);
  start.program.id = ProgramId::of(99);
  start.program.source = node_;
  start.program.files.front().hash = Hash128{1, 2};
  start.demand_class.program = start.program.id;
  head_->say(start);
  ASSERT_TRUE(until([&] { return gone(start) != nullptr; }));
  EXPECT_EQ(gone(start)->cause.kind, EndKind::start_failed);
  EXPECT_NE(gone(start)->cause.text.find("missing on the node"), std::string::npos);
}

TEST_F(ServiceTest, Fenced_EndsExecutorsAndRejoins) {
  FakeDriver& driver = start_with_program();
  const StartSlot start = slot(7, "real", driver);
  head_->say(start);
  ASSERT_TRUE(until([&] { return started(start) != nullptr; }));
  const auto pid = static_cast<pid_t>(pid_of(started(start)->endpoint.process));
  head_->refuse(RefusalCode::fenced);
  ASSERT_TRUE(until([&] { return service_->end().has_value(); }));
  EXPECT_TRUE(service_->end()->fenced);
  service_.reset();
  EXPECT_NE(::kill(pid, 0), 0) << "its executor is gone";

  const auto registrations = head_->registrations().size();
  agent_file_ = {};
  start_registered();
  EXPECT_NE(head_->registrations().back().address.incarnation,
            head_->registrations()[registrations - 1].address.incarnation);
  EXPECT_EQ(head_->registrations().back().address.node, node_);
}

TEST_F(ServiceTest, Stopped_NotifiesHead) {
  FakeDriver& driver = start_with_program();
  const StartSlot start = slot(8, "real", driver);
  head_->say(start);
  ASSERT_TRUE(until([&] { return started(start) != nullptr; }));
  service_->stop(true);
  ASSERT_TRUE(until([&] { return head_->received<AgentDraining>() != nullptr; }));
  head_->say(StopSlot{start.slot, true, "its agent leaves"});
  ASSERT_TRUE(until([&] { return service_->end().has_value(); }));
  EXPECT_EQ(service_->end()->code, 0);
  EXPECT_NE(gone(start), nullptr);
  service_.reset();
  EXPECT_TRUE(until([&] { return !head_->farewells().empty(); }));
}

}  // namespace
}  // namespace mobula::internal::worker
