// Values that threads write into the store.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

class Writes : public SmallClient {
 protected:
  ReserveObjectReply space(ObjectId object) {
    ReserveObjectReply answer;
    answer.object = object;
    answer.location = {1, 4096, 1 << 20};
    return answer;
  }
  const ObjectId first = ObjectId::of(70);
};

TEST_F(Writes, Abandoned_AgentIsNotified) {
  step(ReserveSpace{first, 1 << 20, ProcessId::of(1), node()});
  step(AbandonWrite{first});
  const auto released = to_agent<ReleaseObject>();
  ASSERT_EQ(released.size(), 1u);
  EXPECT_TRUE(released[0].abandons_write);
  EXPECT_EQ(core_.sizes().writes, 0u);
  agent(space(first));
  EXPECT_TRUE(commanded<SpaceReserved>().empty()) << "no thread waits for it";
}

TEST_F(Writes, Abandoned_AnotherWriterGetsMemory) {
  step(ReserveSpace{first, 1 << 20, ProcessId::of(1), node()});
  step(AbandonWrite{first});
  step(ReserveSpace{ObjectId::of(71), 1 << 20, ProcessId::of(1), node()});
  agent(space(ObjectId::of(71)));
  EXPECT_EQ(commanded<SpaceReserved>().size(), 1u);
}

// The home reports both the loss of the bytes and that no process holds the object, after this
// process dropped its ref.
TEST_F(Writes, GoneAfterRelease_StoredValueIsDropped) {
  const ObjectId object = first;
  step(PutInline{object, value("small")});
  ValueRecord outer = value("outer");
  outer.contained.push_back(core_.ref_of(object));
  SubmitTask given = task(7);
  Argument argument;
  argument.value = outer;
  given.call.arguments.edit().push_back(argument);
  step(given);
  agent(space(object));
  step(ValueWritten{object, false, {}});
  step(ReceivedFromAgent{SealObjectReply{object}});
  slot(3, 20);
  reply_value(20, "done");
  release(object);
  EXPECT_EQ(to_agent<ReleaseObject>().size(), 1u);
  step(ReceivedFromAgent{ObjectGone{object, "node 2 released the last copy"}});
  EXPECT_EQ(to_agent<ReserveObjectRequest>().size(), 1u);
  step(ReceivedFromAgent{ExportReleased{object}});
  agent(space(object));
  step(ValueWritten{object, false, {}});
  step(ReceivedFromAgent{SealObjectReply{object}});
  EXPECT_EQ(state(object), "unknown");
  EXPECT_EQ(to_agent<ReleaseObject>().size(), 1u);
}

}  // namespace
}  // namespace mobula::internal::client
