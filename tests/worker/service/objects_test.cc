#include <cstring>

#include "service_fixture.h"
#include "store/slab.h"

namespace mobula::internal::worker {
namespace {

constexpr std::int64_t object_bytes = 6 << 20;

class ServiceObjectsTest : public ServiceTest {
 protected:
  // Writes the object as its owner's engine does; the slab's mapping lives as long as the test.
  void write(FakeDriver& owner, ObjectId object) {
    owner.say(ReserveObject{object, object_bytes});
    ASSERT_TRUE(until([&] { return owner.heard<ObjectReserved>() != nullptr; }));
    const ObjectReserved reserved = *owner.heard<ObjectReserved>();
    ASSERT_FALSE(reserved.failure.has_value()) << reserved.failure->text;
    ASSERT_TRUE(reserved.new_slab);
    ASSERT_EQ(owner.fds.size(), 1u);
    slab_.emplace(WritableSlab::map(owner.fds.front().get(),
                                    static_cast<std::uint64_t>(reserved.slab_bytes),
                                    Paging::on_use)
                      .value());
    const auto bytes =
        slab_->bytes(static_cast<std::uint64_t>(reserved.place.offset), object_bytes).value();
    std::memset(bytes.data(), 0x5a, bytes.size());
    owner.say(SealObject{object, owner.process(), node_, false, {}});
    ASSERT_TRUE(until([&] { return owner.heard<ObjectSealed>() != nullptr; }));
  }
  // What a reader sees at the place it was told.
  void expect_readable(FakeDriver& reader) {
    const ObjectReadable readable = *reader.heard<ObjectReadable>();
    ASSERT_FALSE(readable.failure.has_value()) << readable.failure->text;
    ASSERT_FALSE(reader.fds.empty());
    const auto slab = SlabMapping::map(reader.fds.back().get(),
                                       static_cast<std::uint64_t>(readable.slab_bytes),
                                       Paging::on_use)
                          .value();
    const auto bytes = slab->bytes().subspan(
        static_cast<std::size_t>(readable.place.offset), object_bytes);
    EXPECT_EQ(bytes.front(), std::byte{0x5a});
    EXPECT_EQ(bytes.back(), std::byte{0x5a});
  }

  std::optional<WritableSlab> slab_;
};

TEST_F(ServiceObjectsTest, AnotherProcessReadsALargeObjectInPlace) {
  start_registered();
  FakeDriver& owner = attach_driver();
  FakeDriver& reader = attach_driver();
  const ObjectId object = ObjectId::random();
  write(owner, object);
  reader.say(FetchObject{{object, node_, owner.process(), {}}, {}});
  ASSERT_TRUE(until([&] { return reader.heard<ObjectReadable>() != nullptr; }));
  expect_readable(reader);
  EXPECT_FALSE(WritableSlab::map(reader.fds.back().get(), object_bytes, Paging::on_use).ok())
      << "a reader cannot write";
}

TEST_F(ServiceObjectsTest, ItsWriterReadsItToo) {
  start_registered();
  FakeDriver& owner = attach_driver();
  const ObjectId object = ObjectId::random();
  write(owner, object);
  owner.say(FetchObject{{object, node_, owner.process(), {}}, {}});
  ASSERT_TRUE(until([&] { return owner.heard<ObjectReadable>() != nullptr; }));
  EXPECT_EQ(owner.fds.size(), 2u) << "once to write, once to read";
  expect_readable(owner);
}

TEST_F(ServiceObjectsTest, ReleasedItLeavesNothingBehind) {
  start_registered();
  FakeDriver& owner = attach_driver();
  const ObjectId object = ObjectId::random();
  write(owner, object);
  owner.say(ReleaseObject{object});
  EXPECT_TRUE(until([&] { return service_->core().census().objects == 0; }));
}

}  // namespace
}  // namespace mobula::internal::worker
