// The service of an agent with real processes, and a head that the test controls. The test's own
// program also runs as the executors (see main.cc).
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/detection/probe.h"
#include "fake_head.h"
#include "protocol/program/program_files.h"
#include "transport/local/local_listener.h"
#include "transport/loop_fixture.h"
#include "worker/worker_service.h"

namespace mobula::internal::worker {

// A process of this machine on the agent's socket.
class FakeDriver {
 public:
  FakeDriver(EventLoop& loop, const std::string& path, JobId job)
      : process_(ProcessId::random()), job_(job) {
    LocalLink::Callbacks callbacks;
    callbacks.on_frame = [this](LocalFrame frame) {
      auto message = decode<AgentToProcess>(frame.bytes).value();
      if (std::holds_alternative<UseDoorbell>(message)) return;
      for (Fd& fd : frame.fds) fds.push_back(std::move(fd));
      said.push_back(std::move(message));
    };
    callbacks.on_closed = [this](const Failure&) { closed = true; };
    link_ = LocalLink::open(loop, connect_local(path).value(), std::move(callbacks)).value();
  }

  void attach() {
    AttachDriver message;
    message.process = process_;
    message.job = job_;
    message.curve_key = keys_.public_key;
    message.pid = ::getpid();
    say(message);
  }
  void say(ProcessToAgent message) { ASSERT_TRUE(link_->send(encode(message))); }
  void say_bytes(const std::string& text) {
    ASSERT_TRUE(link_->send(std::as_bytes(std::span(text.data(), text.size()))));
  }

  template <class Message>
  const Message* received() const {
    for (auto at = said.rbegin(); at != said.rend(); ++at) {
      if (const auto* message = std::get_if<Message>(&*at)) return message;
    }
    return nullptr;
  }
  bool has_line(const std::string& wanted) const {
    for (const auto& message : said) {
      const auto* lines = std::get_if<LogLines>(&message);
      if (lines == nullptr) continue;
      for (const auto& line : lines->lines) {
        if (line.find(wanted) != std::string::npos) return true;
      }
    }
    return false;
  }
  ProcessId process() const { return process_; }
  const CurveKeys& keys() const { return keys_; }

  std::vector<AgentToProcess> said;
  std::vector<Fd> fds;
  bool closed = false;

 private:
  const ProcessId process_;
  const JobId job_;
  const CurveKeys keys_ = CurveKeys::generate().value();
  std::unique_ptr<LocalLink> link_;
};

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() {
    directory_ =
        std::filesystem::temp_directory_path() / ("mobula-service-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_ / "agent");
  }
  ~ServiceTest() override {
    drivers_.clear();
    service_.reset();
    head_.reset();
    std::filesystem::remove_all(directory_);
  }

  ServiceOptions options() {
    ServiceOptions options;
    options.head_address = head_->address();
    options.keys = head_->key_file();
    options.directory = (directory_ / "agent").string();
    options.runtime_dir = (directory_ / "run").string();
    options.cluster = "test";
    options.node = node_;
    options.host = "test-host";
    NodeRequest request;
    request.num_cpus = Quantity::whole(4);
    request.num_gpus = Quantity::whole(4);
    request.memory_bytes = 1u << 30;
    options.shape = node_shape(MachineFacts{}, request).value();
    options.bind_host = "127.0.0.1";
    options.core.store_bytes = 64u << 20;
    for (char** entry = ::environ; *entry != nullptr; ++entry) {
      options.pool.environment.emplace_back(*entry);
    }
    options.on_registered = [this](const AgentFile& file) { agent_file_ = file; };
    return options;
  }

  void start() {
    auto settings = options();
    settings.prestart_idle_timeout = settings_.prestart_idle_timeout;
    settings.max_reserves = settings_.max_reserves;
    service_ = WorkerService::create(*loop_, std::move(settings)).value();
  }
  void start_registered() {
    start();
    ASSERT_TRUE(until([&] { return !agent_file_.socket.empty(); }));
  }
  bool until(const std::function<bool()>& condition) { return turn_until(*loop_, condition, 60s); }

  FakeDriver& attach_driver() {
    drivers_.push_back(std::make_unique<FakeDriver>(*loop_, service_->socket_path(), job_));
    drivers_.back()->attach();
    EXPECT_TRUE(until([&] { return drivers_.back()->received<DriverAttached>() != nullptr; }));
    return *drivers_.back();
  }
  // Like the driver's init: the agent stores the files of its program.
  void bring_program(FakeDriver& driver) {
    program_ = describe_program(0).value();
    program_.source = node_;
    program_.arguments = {"service-test"};
    program_.working_dir = directory_.string();
    StartJob start;
    start.job = job_;
    start.driver = driver.process();
    start.program = program_;
    driver.say(ForHead{start});
    EXPECT_TRUE(until([&] { return head_->received<FromProcess>() != nullptr; }));
  }
  // A registered agent, and a driver with a stored program.
  FakeDriver& start_with_program() {
    start_registered();
    FakeDriver& driver = attach_driver();
    bring_program(driver);
    return driver;
  }
  // `kind`: see main.cc.
  StartSlot slot(std::uint64_t number, const std::string& kind, const FakeDriver& driver) const {
    StartSlot start;
    start.slot = SlotId::of(number);
    start.demand_class.id = ClassId::of(1);
    start.demand_class.job = job_;
    start.demand_class.program = program_.id;
    start.lessee = driver.process();
    start.program = program_;
    start.job_env = {{"MOBULA_SERVICE_TEST", kind}, {"OF_THE_JOB", "yes"}};
    return start;
  }
  const SlotStarted* started(const StartSlot& start, std::uint32_t generation = 0) const {
    return head_->received<SlotStarted>([&](const SlotStarted& each) {
      return each.slot == start.slot && each.generation == generation;
    });
  }
  const SlotGone* gone(const StartSlot& start) const {
    return head_->received<SlotGone>([&](const SlotGone& each) { return each.slot == start.slot; });
  }
  std::int64_t pid_of(ProcessId process) const {
    for (const auto& fact : service_->core().facts().processes) {
      if (fact.process == process) return fact.pid;
    }
    return 0;
  }

  ServiceOptions settings_;  // changes of the tests to `options`: prestarted executors
  std::filesystem::path directory_;
  const NodeId node_ = NodeId::random();
  const JobId job_ = JobId::random();
  std::unique_ptr<EventLoop> loop_ = EventLoop::create().value();
  std::unique_ptr<FakeHead> head_ = std::make_unique<FakeHead>(*loop_);
  std::unique_ptr<WorkerService> service_;
  std::vector<std::unique_ptr<FakeDriver>> drivers_;
  AgentFile agent_file_;
  ProgramRecord program_;
};

}  // namespace mobula::internal::worker
