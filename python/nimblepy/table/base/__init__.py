"""What every part of tables speaks of: files, snapshots, types, partition values, places."""
