// Two agents on one machine, which know each other only through the head.
#include "objects_fixture.h"

namespace mobula::internal::worker {
namespace {

class TwoNodesTest : public ServiceObjectsTest {
 protected:
  ~TwoNodesTest() override { other_.reset(); }

  void start_both() {
    start_registered();
    first_socket_ = service_->socket_path();
    ServiceOptions second = options();
    second.node = other_node_;
    second.directory = (directory_ / "other").string();
    ASSERT_TRUE(make_private_dir(second.directory));
    agent_file_ = {};
    other_ = WorkerService::create(*loop_, second).value();
    ASSERT_TRUE(until([&] { return !agent_file_.socket.empty(); }));
    head_->introduce();
  }
  FakeDriver& attach_to_other() {
    drivers_.push_back(std::make_unique<FakeDriver>(*loop_, other_->socket_path(), job_));
    drivers_.back()->attach();
    EXPECT_TRUE(until([&] { return drivers_.back()->received<DriverAttached>() != nullptr; }));
    return *drivers_.back();
  }

  const NodeId other_node_ = NodeId::random();
  std::string first_socket_;
  std::unique_ptr<WorkerService> other_;
};

TEST_F(TwoNodesTest, ReadsObjectOnAnotherNode) {
  start_both();
  FakeDriver& owner = attach_driver();
  FakeDriver& reader = attach_to_other();
  const ObjectId object = ObjectId::random();
  write(owner, object);
  owner.say(ExportObject{object});
  reader.say(FetchObjectRequest{{object, node_, owner.process(), {}}, node_});
  ASSERT_TRUE(until([&] { return reader.received<FetchObjectReply>() != nullptr; }));
  expect_readable(reader);
  EXPECT_TRUE(until(
      [&] { return service_->core().census().offers == 0 && other_->core().census().pulls == 0; }));

  reader.say(ReleaseObject{object});
  owner.say(ReleaseObject{object});
  EXPECT_TRUE(until([&] {
    return service_->core().census().objects == 0 && other_->core().census().objects == 0;
  }));
}

TEST_F(TwoNodesTest, CopiesProgramToNodeThatRunsIt) {
  start_both();
  FakeDriver& driver = attach_driver();
  bring_program(driver);
  const StartSlot start = slot(1, "small", driver);
  head_->say(other_->incarnation(), start);
  ASSERT_TRUE(until([&] { return started(start) || gone(start); }));
  ASSERT_EQ(gone(start), nullptr) << gone(start)->cause.text;
  EXPECT_EQ(started(start)->endpoint.node, other_node_);
  const auto copy =
      directory_ / "other" / "programs" / program_.id.hex() / program_.files.front().name;
  EXPECT_TRUE(std::filesystem::exists(copy));

  head_->say(other_->incarnation(), StopSlot{start.slot, false, "the test is done"});
  ASSERT_TRUE(until([&] { return gone(start) != nullptr; }));
  EXPECT_FALSE(std::filesystem::exists(copy)) << "its bytes live as long as it is used";
}

TEST_F(TwoNodesTest, ProgramPartlyMissing_LeavesNoFiles) {
  start_both();
  FakeDriver& driver = attach_driver();
  bring_program(driver);
  StartSlot start = slot(1, "small", driver);
  start.program.id = start.demand_class.program = ProgramId::random();
  start.program.files.push_back({"libgone.so.1", Hash128{1, 2}, 100'000});
  head_->say(other_->incarnation(), start);
  ASSERT_TRUE(until([&] { return started(start) || gone(start); }));
  ASSERT_NE(gone(start), nullptr) << "it cannot be whole";
  const auto left = [&] {
    std::vector<std::string> names;
    for (const auto& each :
         std::filesystem::directory_iterator(directory_ / "other" / "programs" / "files")) {
      const std::string name = each.path().filename().string();
      if (name.find(".new-") != std::string::npos) names.push_back(name);
    }
    return names;
  };
  EXPECT_TRUE(until([&] { return other_->core().census().pulls == 0 && left().empty(); }));
  EXPECT_EQ(left(), std::vector<std::string>());
}

TEST_F(TwoNodesTest, PeerDiedDuringPull_FailsObjectNotAgent) {
  start_both();
  FakeDriver& owner = attach_driver();
  FakeDriver& reader = attach_to_other();
  const ObjectId object = ObjectId::random();
  write(owner, object);
  owner.say(ExportObject{object});
  const ProcessId incarnation = service_->incarnation();
  const ProcessId process = owner.process();
  drivers_.erase(drivers_.begin());
  service_.reset();
  reader.say(FetchObjectRequest{{object, node_, process, {}}, node_});
  PeersChanged news;
  news.dead_agents = {incarnation};
  head_->say(other_->incarnation(), news);
  ASSERT_TRUE(until([&] {
    return reader.received<FetchObjectReply>() != nullptr ||
           head_->received<LocateObjectRequest>() != nullptr;
  }));
  if (head_->received<LocateObjectRequest>() != nullptr) {
    head_->say(other_->incarnation(), LocateObjectReply{object, {}});
  }
  ASSERT_TRUE(until([&] { return reader.received<FetchObjectReply>() != nullptr; }));
  EXPECT_TRUE(reader.received<FetchObjectReply>()->failure.has_value());
}

}  // namespace
}  // namespace mobula::internal::worker
