def measured(options, manifest, split, count): return None
def sentence(found): return ""
