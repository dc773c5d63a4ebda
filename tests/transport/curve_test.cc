#include "transport/bus/curve.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "transport/bytes_fixture.h"

namespace mobula::internal {
namespace {

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
}

TEST(Curve, MakesDistinctKeys) {
  ASSERT_TRUE(curve_available());
  const CurveKeys one = CurveKeys::generate().value();
  const CurveKeys two = CurveKeys::generate().value();
  EXPECT_TRUE(is_curve_key(one.public_key));
  EXPECT_TRUE(is_curve_key(one.secret_key));
  EXPECT_NE(one.public_key, two.public_key);
  EXPECT_FALSE(is_curve_key(""));
  EXPECT_FALSE(is_curve_key(std::string(40, '"')));
  EXPECT_FALSE(is_curve_key(one.public_key + "x"));
}

TEST(CurveFile, WritesKeysWithMode0600WithoutReplacing) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("head.key");
  const CurveKeys keys = CurveKeys::generate().value();
  ASSERT_TRUE(keys.save(path));
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_EQ(CurveKeys::load(path)->secret_key, keys.secret_key);
  EXPECT_EQ(CurveKeys::load(path)->public_key, keys.public_key);
  EXPECT_EQ(CurveKeys::generate()->save(path).error().code, ErrorCode::already_exists);
  EXPECT_EQ(CurveKeys::load(path)->secret_key, keys.secret_key);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1)
      << "no partial file stays";
}

TEST(CurveFile, RejectsLooserModes) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("head.key");
  ASSERT_TRUE(CurveKeys::generate()->save(path));
  for (const mode_t mode : {0640, 0604, 0620, 0610, 0644, 0777}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(CurveKeys::load(path).error().code, ErrorCode::permission_denied) << mode;
  }
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  EXPECT_TRUE(CurveKeys::load(path).ok());
}

TEST(CurveFile, RejectsFileWithoutKeyPair) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("head.key");
  EXPECT_EQ(CurveKeys::load(path).error().code, ErrorCode::not_found);
  const CurveKeys one = CurveKeys::generate().value();
  const CurveKeys two = CurveKeys::generate().value();
  const std::string good =
      "curve-public " + one.public_key + "\ncurve-secret " + one.secret_key + "\n";
  write_text(path, good);
  EXPECT_TRUE(CurveKeys::load(path).ok());
  for (const std::string& text :
       {std::string(), std::string("x"), good.substr(1), good.substr(0, good.size() - 1),
        good + "\n", std::string(good.size(), '\0'),
        "curve-public " + one.public_key + "\ncurve-secret " + two.secret_key + "\n"}) {
    write_text(path, text);
    const auto loaded = CurveKeys::load(path);
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().code, ErrorCode::corrupt);
    EXPECT_EQ(loaded.error().text.find(one.secret_key), std::string::npos);
  }
  EXPECT_EQ(CurveKeys::load(directory.path()).error().code, ErrorCode::permission_denied)
      << "a folder";
}

}  // namespace
}  // namespace mobula::internal
