allocsnap stats mixed.snap --include function=work,all-frames; allocsnap stats mixed.snap --exclude all-frames,function=work
