#include "objects_fixture.h"

namespace mobula::internal::worker {
namespace {

TEST_F(ServiceObjectsTest, AnotherProcess_ReadsLargeObjectInPlace) {
  start_registered();
  FakeDriver& owner = attach_driver();
  FakeDriver& reader = attach_driver();
  const ObjectId object = ObjectId::random();
  write(owner, object);
  reader.say(FetchObjectRequest{{object, node_, owner.process(), {}}, {}});
  ASSERT_TRUE(until([&] { return reader.received<FetchObjectReply>() != nullptr; }));
  expect_readable(reader);
  EXPECT_FALSE(WritableSlab::map(reader.fds.back().get(), object_bytes, Paging::on_use).ok())
      << "a reader cannot write";
}

TEST_F(ServiceObjectsTest, Writer_ReadsItsObject) {
  start_registered();
  FakeDriver& owner = attach_driver();
  const ObjectId object = ObjectId::random();
  write(owner, object);
  owner.say(FetchObjectRequest{{object, node_, owner.process(), {}}, {}});
  ASSERT_TRUE(until([&] { return owner.received<FetchObjectReply>() != nullptr; }));
  EXPECT_EQ(owner.fds.size(), 2u) << "once to write, once to read";
  expect_readable(owner);
}

TEST_F(ServiceObjectsTest, Released_LeavesNothing) {
  start_registered();
  FakeDriver& owner = attach_driver();
  const ObjectId object = ObjectId::random();
  write(owner, object);
  owner.say(ReleaseObject{object});
  EXPECT_TRUE(until([&] { return service_->core().census().objects == 0; }));
}

}  // namespace
}  // namespace mobula::internal::worker
