allocsnap stats new.snap --group-by thread; allocsnap stats new.snap --group-by thread --exclude 'function=nobody,all_frames' --json
