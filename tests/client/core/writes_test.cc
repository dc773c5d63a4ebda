// Values that threads write into the store.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

class Writes : public SmallClient {
 protected:
  ReserveObjectReply room(ObjectId object) {
    ReserveObjectReply answer;
    answer.object = object;
    answer.place = {1, 4096, 1 << 20};
    return answer;
  }
  const ObjectId first = ObjectId::of(70);
};

TEST_F(Writes, Abandoned_AgentIsNotified) {
  step(ReserveRoom{first, 1 << 20, ProcessId::of(1), node()});
  step(AbandonWrite{first});
  const auto released = to_agent<ReleaseObject>();
  ASSERT_EQ(released.size(), 1u);
  EXPECT_TRUE(released[0].abandons_write);
  EXPECT_EQ(core_.sizes().writes, 0u);
  agent(room(first));
  EXPECT_TRUE(commanded<RoomMade>().empty()) << "no thread waits for it";
}

TEST_F(Writes, Abandoned_AnotherWriterGetsMemory) {
  step(ReserveRoom{first, 1 << 20, ProcessId::of(1), node()});
  step(AbandonWrite{first});
  step(ReserveRoom{ObjectId::of(71), 1 << 20, ProcessId::of(1), node()});
  agent(room(ObjectId::of(71)));
  EXPECT_EQ(commanded<RoomMade>().size(), 1u);
}

}  // namespace
}  // namespace mobula::internal::client
