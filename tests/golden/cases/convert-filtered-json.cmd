allocsnap convert mixed.snap -o part.snap --thread 4720; allocsnap stats part.snap --json --top 1; allocsnap convert part.snap -o again.snap; allocsnap stats again.snap -g process
