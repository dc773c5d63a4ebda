// Random histories of objects, processes, nodes, and jobs, compared with a model of sets: holders
// and states. Sizes and slabs are recounted from the results of the table.
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "sanitizers.h"
#include "store/core/object_table.h"

namespace mobula::internal::model_test {
namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t capacity = 2048 * kib;
constexpr ProcessId agent = ProcessId::of(1);

struct ModelObject {
  ObjectState state = ObjectState::wanted;
  JobId job;
  ProcessId writer;
  ObjectLocation location;
  std::set<ProcessId> processes;
  std::set<NodeId> nodes;
};

class RandomLife {
 public:
  explicit RandomLife(std::uint64_t seed) : random_(seed), table_(options()) {}

  void play(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFatalFailure(); ++i) {
      step();
      check();
    }
    finish();
  }

 private:
  static TableOptions options() {
    TableOptions made;
    made.space = {.capacity_bytes = capacity,
                  .first_slab_bytes = 64 * kib,
                  .max_slab_bytes = 256 * kib,
                  .incarnation = agent};
    return made;
  }
  template <class Map>
  auto any_key(const Map& map) {
    auto at = map.begin();
    std::advance(at, random_.below(map.size()));
    return at->first;
  }
  ObjectId any_object() { return ObjectId::of(1000 + random_.below(40)); }
  NodeId any_node() { return NodeId::of(1 + random_.below(4)); }

  void step() {
    const std::uint64_t choice = random_.below(100);
    if (jobs_of_.size() < 3 || choice < 4) return start_process();
    if (choice < 34) return reserve();
    if (choice < 52) return seal();
    if (choice < 66) return hold();
    if (choice < 84) return release();
    if (choice < 90) return node_hold();
    if (choice < 92) return acknowledge_retired();
    if (choice < 93) return retire_rested();
    if (choice < 95) return fail();
    if (choice < 98) return kill_process();
    if (choice < 99) return kill_node(any_node());
    end_job(JobId::of(1 + random_.below(3)));
  }

  void start_process() {
    const ProcessId process = ProcessId::of(next_process_++);
    jobs_of_[process] = JobId::of(1 + random_.below(3));
    table_.add_process(process, jobs_of_[process]);
  }

  void reserve() {
    const ObjectId object = any_object();
    const bool by_agent = random_.chance(200);
    const ProcessId process = any_key(jobs_of_);
    ReserveRequest request{.object = object, .job = jobs_of_[process]};
    request.writer = by_agent ? agent : process;
    request.size_bytes = random_.below(random_.chance(100) ? 900 * kib : 40 * kib);
    const auto placement = table_.reserve(request);
    const auto at = objects_.find(object);
    if (at != objects_.end() && has_location(at->second)) {
      const bool repeated = at->second.state == ObjectState::reserved &&
                            at->second.writer == request.writer &&
                            at->second.location.size_bytes == request.size_bytes;
      ASSERT_EQ(placement.ok(), repeated);
      if (repeated) {
        ASSERT_EQ(placement->location, at->second.location);
      } else {
        ASSERT_EQ(placement.error().code, ErrorCode::already_exists);
      }
      return;
    }
    if (!placement) {
      ASSERT_EQ(placement.error().code, ErrorCode::resource_exhausted) << placement.error().text;
      return;
    }
    for (const auto& retired : placement->retire) retire(retired);
    if (!placement->location) return;
    if (placement->create) {
      ASSERT_TRUE(slabs_.emplace(placement->create->slab, placement->create->size_bytes).second);
      writers_[placement->create->slab] = request.writer;
    }
    ASSERT_EQ(writers_.at(placement->location->slab), request.writer);
    ModelObject& row = objects_[object];
    row.state = ObjectState::reserved;
    row.job = request.job;
    row.writer = request.writer;
    row.location = *placement->location;
    row.processes.insert(request.writer);
  }

  void seal() {
    for (auto& [object, row] : objects_) {
      if (row.state != ObjectState::reserved || random_.chance(500)) continue;
      ASSERT_TRUE(table_.seal(object, row.writer).ok());
      row.state = ObjectState::sealed;
      if (row.writer == agent) {
        const ObjectId released = object;  // a copy: the row is removed with its last hold
        row.processes.erase(agent);
        absorb(table_.release(agent, released), collect_all());
      }
      return;
    }
  }

  void hold() {
    const ObjectId object = any_object();
    const ProcessId process = any_key(jobs_of_);
    const auto held = table_.hold(process, object);
    ASSERT_TRUE(held.ok());
    ASSERT_EQ(held->newly_wanted, !objects_.contains(object));
    objects_[object].processes.insert(process);
    ASSERT_EQ(held->state, objects_[object].state);
  }

  void release() {
    if (objects_.empty()) return;
    const ObjectId object = any_key(objects_);
    ModelObject& row = objects_[object];
    if (row.processes.empty()) return;
    auto at = row.processes.begin();
    std::advance(at, random_.below(row.processes.size()));
    const ProcessId process = *at;
    drop_hold(row, process);
    absorb(table_.release(process, object), collect_all());
  }

  void node_hold() {
    const ObjectId object = any_object();
    const NodeId node = any_node();
    const auto at = objects_.find(object);
    if (random_.chance(500)) {
      ASSERT_EQ(table_.hold_node(node, object).ok(), at != objects_.end());
      if (at != objects_.end()) at->second.nodes.insert(node);
    } else {
      if (at != objects_.end()) at->second.nodes.erase(node);
      absorb(table_.release_node(node, object), collect_all());
    }
  }

  void fail() {
    const ObjectId object = any_object();
    const auto at = objects_.find(object);
    const Consequences out = table_.fail(object, failure(ErrorCode::unavailable, "lost"));
    if (at != objects_.end() && at->second.state != ObjectState::sealed) {
      at->second.state = ObjectState::failed;
      at->second.writer = ProcessId{};
    }
    absorb(out, {});
  }

  void kill_process() {
    const ProcessId process = any_key(jobs_of_);
    const auto gone = collect_after_death(process);
    jobs_of_.erase(process);
    absorb(table_.drop_process(process), gone);
  }

  void kill_node(NodeId node) {
    for (auto& [object, row] : objects_) row.nodes.erase(node);
    absorb(table_.drop_node(node), collect_all());
  }

  void end_job(JobId job) {
    std::set<ProcessId> members;
    for (const auto& [process, of] : jobs_of_) {
      if (of == job) members.insert(process);
    }
    for (const ProcessId process : members) jobs_of_.erase(process);
    for (auto& [object, row] : objects_) {
      for (const ProcessId process : members) drop_hold(row, process);
      if (row.job != job) continue;
      row.nodes.clear();
      drop_hold(row, agent);
    }
    for (auto& [slab, writer] : writers_) {
      if (members.contains(writer)) writer = ProcessId{};
    }
    absorb(table_.drop_job(job), collect_all());
  }

  static bool has_location(const ModelObject& row) {
    return row.state == ObjectState::reserved || row.state == ObjectState::sealed;
  }
  static void drop_hold(ModelObject& row, ProcessId process) {
    row.processes.erase(process);
    if (row.state == ObjectState::reserved && row.writer == process) {
      row.state = ObjectState::wanted;
      row.writer = ProcessId{};
    }
  }
  // Removes unheld objects from the model and returns them.
  std::set<ObjectId> collect_all() {
    std::set<ObjectId> gone;
    for (auto at = objects_.begin(); at != objects_.end();) {
      const bool held = !at->second.processes.empty() || !at->second.nodes.empty();
      if (!held) gone.insert(at->first);
      at = held ? std::next(at) : objects_.erase(at);
    }
    return gone;
  }
  std::set<ObjectId> collect_after_death(ProcessId process) {
    for (auto& [object, row] : objects_) drop_hold(row, process);
    for (auto& [slab, writer] : writers_) {
      if (writer == process) writer = ProcessId{};
    }
    return collect_all();
  }

  void retire(const RetiredSlab& retired) {
    ASSERT_EQ(writers_.at(retired.slab), retired.writer);
    ASSERT_FALSE(retired.writer.empty());
    ASSERT_TRUE(retired_.insert(retired.slab).second);
  }
  void absorb(const Consequences& out, const std::set<ObjectId>& expected_gone) {
    std::set<ObjectId> gone;
    for (const auto& it : out.gone) ASSERT_TRUE(gone.insert(it.object).second);
    ASSERT_EQ(gone, expected_gone);
    for (const ObjectId object : out.interrupted) {
      ASSERT_EQ(objects_.at(object).state, ObjectState::wanted);
    }
    for (const auto& retired : out.slabs.retire) retire(retired);
    for (const SlabId slab : out.slabs.released) {
      ASSERT_TRUE(writers_.at(slab).empty()) << "only a slab without writer needs no unmapping";
      ASSERT_EQ(slabs_.erase(slab), 1u);
      writers_.erase(slab);
      retired_.erase(slab);
    }
  }
  void acknowledge_retired() {
    if (retired_.empty()) return;
    const SlabId slab = *retired_.begin();
    ASSERT_TRUE(table_.slab_gone(slab));
    retired_.erase(slab);
    slabs_.erase(slab);
    writers_.erase(slab);
  }

  // Idle slabs are judged by the state at the previous call.
  void retire_rested() {
    const std::uint64_t floor = random_.below(512 * kib);
    std::uint64_t idle = table_.space().idle_bytes();
    std::uint64_t smallest = capacity;
    for (const auto& retired : table_.retire_rested(floor)) {
      ASSERT_TRUE(rested_.contains(retired.slab)) << "it was in use since the call before";
      ASSERT_GT(idle, floor);
      ASSERT_LE(slabs_.at(retired.slab), smallest) << "the larger ones first";
      smallest = slabs_.at(retired.slab);
      idle -= smallest;
      rested_.erase(retired.slab);
      retire(retired);
    }
    ASSERT_TRUE(idle <= floor || rested_.empty());
    rested_ = idle_slabs();
  }
  std::set<SlabId> idle_slabs() const {
    std::set<SlabId> idle;
    for (const auto& [slab, writer] : writers_) {
      if (!writer.empty() && !retired_.contains(slab)) idle.insert(slab);
    }
    for (const auto& [object, row] : objects_) {
      if (has_location(row)) idle.erase(row.location.slab);
    }
    return idle;
  }

  void check() {
    const auto idle = idle_slabs();
    std::erase_if(rested_, [&](SlabId slab) { return !idle.contains(slab); });
    std::uint64_t idle_bytes = 0;
    for (const SlabId slab : idle) idle_bytes += slabs_.at(slab);
    ASSERT_EQ(table_.space().idle_bytes(), idle_bytes);
    std::uint64_t used = 0;
    std::map<std::pair<SlabId, std::uint64_t>, std::uint64_t> extents;
    std::map<JobId, JobUse> jobs;
    ASSERT_EQ(table_.objects().size(), objects_.size());
    for (const auto& [object, row] : objects_) {
      const ObjectRow* real = table_.find(object);
      ASSERT_NE(real, nullptr);
      ASSERT_EQ(real->state, row.state);
      ASSERT_EQ(real->processes, row.processes);
      ASSERT_EQ(real->nodes, row.nodes);
      if (!has_location(row)) continue;
      ASSERT_EQ(real->location, row.location);
      ASSERT_TRUE(slabs_.contains(row.location.slab));
      ASSERT_FALSE(retired_.contains(row.location.slab));
      const std::uint64_t bytes = SlabAllocator::extent_bytes(row.location.size_bytes);
      ASSERT_LE(row.location.offset + bytes, slabs_.at(row.location.slab));
      ASSERT_TRUE(extents.emplace(std::pair{row.location.slab, row.location.offset}, bytes).second);
      used += bytes;
      jobs[row.job].used_bytes += bytes;
      ++jobs[row.job].objects;
    }
    for (auto at = extents.begin(); at != extents.end(); ++at) {
      const auto next = std::next(at);
      if (next == extents.end() || next->first.first != at->first.first) continue;
      ASSERT_LE(at->first.second + at->second, next->first.second) << "two objects overlap";
    }
    std::uint64_t committed = 0;
    for (const auto& [slab, bytes] : slabs_) committed += bytes;
    ASSERT_EQ(table_.space().used_bytes(), used);
    ASSERT_EQ(table_.space().committed_bytes(), committed);
    ASSERT_EQ(table_.space().slab_count(), slabs_.size());
    ASSERT_LE(committed, capacity);
    ASSERT_EQ(table_.jobs(), jobs);
  }

  void finish() {
    while (!jobs_of_.empty()) kill_process();
    for (std::uint64_t node = 1; node <= 4; ++node) kill_node(NodeId::of(node));
    for (std::uint64_t job = 1; job <= 3; ++job) end_job(JobId::of(job));
    while (!retired_.empty()) acknowledge_retired();
    EXPECT_EQ(table_.objects().size(), 0u);
    EXPECT_EQ(table_.space().used_bytes(), 0u);
    EXPECT_EQ(table_.space().committed_bytes(), 0u);
    EXPECT_EQ(table_.space().slab_count(), 0u);
    EXPECT_TRUE(slabs_.empty());
  }

  Random random_;
  ObjectTable table_;
  std::map<ObjectId, ModelObject> objects_;
  std::map<ProcessId, JobId> jobs_of_;
  std::map<SlabId, std::uint64_t> slabs_;
  std::map<SlabId, ProcessId> writers_;
  std::set<SlabId> retired_;
  std::set<SlabId> rested_;  // idle since the last call of retire_rested()
  std::uint64_t next_process_ = 10;
};

TEST(ObjectTableModel, RandomHistories_MatchSetModel) {
  for (std::uint64_t seed = 1; seed <= histories(40); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomLife(seed).play(1500);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace mobula::internal::model_test
