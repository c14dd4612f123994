#include "nimble/format/postscript.h"

#include "nimble/base/hash.h"

namespace nimble {
namespace {

constexpr size_t kChecked = 48;  // bytes under the postscript's checksum

Status prerelease(const std::string& name) {
  return Status::unsupported_version(
      name +
      ": written by a pre-release of nimblepy, whose format this version does "
      "not read; write the file again");
}

}  // namespace

std::array<uint8_t, kPostscriptSize> Postscript::serialize() const {
  std::array<uint8_t, kPostscriptSize> out{};
  uint8_t* p = out.data();
  store(p, footer_offset);
  store(p + 8, footer_size);
  store(p + 16, footer_checksum);
  store(p + 24, required_features);
  store(p + 32, optional_features);
  store(p + 40, major);
  store(p + 42, minor);
  store(p + 48, checksum64({p, kChecked}));
  std::memcpy(p + 56, kMagic, sizeof kMagic);
  return out;
}

Result<Postscript> Postscript::parse(ByteSpan tail, uint64_t file_size,
                                     const std::string& name) {
  const uint8_t* p = tail.data();
  if (tail.size() >= kPostscriptSize &&
      std::memcmp(p + 56, kPrereleaseMagic, sizeof kPrereleaseMagic) == 0) {
    return prerelease(name);
  }
  if (tail.size() < kPostscriptSize ||
      std::memcmp(p + 56, kMagic, sizeof kMagic) != 0) {
    return Status::corrupt(name + ": not a nimblepy file, or cut short: its " +
                           std::to_string(file_size) +
                           " bytes do not end with the magic 'NIMBLEPY'");
  }
  if (load<uint64_t>(p + 48) != checksum64({p, kChecked})) {
    return Status::corrupt(name + ": postscript at offset " +
                           std::to_string(file_size - kPostscriptSize) +
                           ": checksum does not match");
  }
  Postscript out;
  out.footer_offset = load<uint64_t>(p);
  out.footer_size = load<uint64_t>(p + 8);
  out.footer_checksum = load<uint64_t>(p + 16);
  out.required_features = load<uint64_t>(p + 24);
  out.optional_features = load<uint64_t>(p + 32);
  out.major = load<uint16_t>(p + 40);
  out.minor = load<uint16_t>(p + 42);
  if (out.major == 0) return prerelease(name);
  if (out.major > kMajorVersion) {
    return Status::unsupported_version(
        name + ": format version " + std::to_string(out.major) + "." +
        std::to_string(out.minor) + "; this version of nimblepy reads " +
        std::to_string(kMajorVersion) + "." + std::to_string(kMinorVersion));
  }
  if (const uint64_t unknown = out.required_features & ~kSupportedFeatures;
      unknown != 0) {
    return Status::unsupported_version(
        name + ": needs feature bits " + std::to_string(unknown) +
        " that this version of nimblepy does not have; it was written by a "
        "newer one");
  }
  // The footer must end where the postscript begins. This detects bytes that
  // were lost or added anywhere in the file.
  const uint64_t end = file_size - kPostscriptSize;
  if (!in_bounds(out.footer_offset, out.footer_size, end) ||
      out.footer_offset + out.footer_size != end) {
    return Status::corrupt(
        name + ": footer of " + std::to_string(out.footer_size) +
        " bytes at offset " + std::to_string(out.footer_offset) +
        " does not end at offset " + std::to_string(end) +
        ", where the postscript of a file of " + std::to_string(file_size) +
        " bytes begins");
  }
  return out;
}

}  // namespace nimble
